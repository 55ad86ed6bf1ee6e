"""Adam at the coordinator: the clients' aggregated delta counts as the negative gradient.

References
----------
D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1. FedAdam, without the bias
correction of the means, is `adaptive`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.native import jit_cached
from gossiprec.numerics.buffer_pool import BufferPool
from gossiprec.rules.aggregators import ModelDelta
from gossiprec.rules.servers import SERVERS, ClientAnswers, Downlink, RoundContext, Server

Decay: TypeAlias = Annotated[float, Field(ge=0, lt=1)]


class AdamOptions(Options):
    """Options of Adam at the coordinator."""

    learning_rate: float = Field(default=0.01, gt=0)
    """size of a step"""
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """decay rates of the mean delta and of its mean square"""
    eps: float = Field(default=1e-8, gt=0)
    """term that prevents division by zero"""
    step_per: Literal["round", "answer"] = "round"
    """round: one step per round, with the aggregated delta; answer: one step per answer, in order of arrival and
    each from the published version, with shared moments; the version moves by the mean step (published code of
    PerFedRec++)"""
    step_bound: float | None = Field(default=None, gt=0)
    """largest absolute value of a step per coordinate; null: no limit"""


@SERVERS.register("adam")
class AdamServer(Server):
    """The new version is the last plus ``learning_rate * m / (sqrt(v) + eps)``, m and v being corrected means.

    As in any dense Adam, a number that no client changes in a round still moves by its means. In a round without
    answers nothing moves, and no step is counted.

    With ``step_per: answer`` each answer makes its own step from the published version, and the version moves by the
    mean of the steps, weighted like the answers. Moments and the number of steps continue from answer to answer and
    from round to round; an answer changes the moments of all numbers, and those that it does not touch decay.
    """

    Options = AdamOptions
    options: AdamOptions
    checkpointed = ("mean", "square", "steps")

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.needs_answers = self.options.step_per == "answer"
        self._mean: F64 | F32 | None = None
        self._square: F64 | F32 | None = None
        self._steps = 0
        self._memory = BufferPool()

    def round(self, published: F32, aggregated: F32, answers: ClientAnswers, round: RoundContext) -> Downlink:
        """Return the version after a step."""
        if not len(answers.clients):
            return Downlink(published[None])
        per_answer = self.options.step_per == "answer"
        if self._mean is None or self._square is None:
            # moments per answer are in single precision as in torch.optim.Adam: there are 256 times as many steps
            kind = np.float32 if per_answer else np.float64
            self._mean, self._square = np.zeros(published.shape, kind), np.zeros(published.shape, kind)
        (found,) = self._memory.empty(published.shape)
        if per_answer:
            self._step_per_answer(published, answers, round, found)
        else:
            self._step_once(published, aggregated, round, found)
        return Downlink(found[None])

    def _step_once(self, published: F32, aggregated: F32, round: RoundContext, found: F32) -> None:
        self._steps += 1
        beta1, beta2 = self.options.betas
        step = jit_cached(_step)
        columns = _StepColumns(published, aggregated, self._mean, self._square, found)
        numbers = _StepNumbers(
            beta1, beta2, 1.0 - beta1**self._steps, 1.0 - beta2**self._steps, self.options.learning_rate,
            self.options.eps, self._bound,
        )  # fmt: skip
        edges = np.linspace(0, len(found), round.threads.size + 1).astype(int).tolist()

        def step_in(part: int) -> None:
            some = slice(edges[part], edges[part + 1])
            step(_StepColumns(*(column[some] for column in columns)), numbers)

        round.threads.run(step_in)

    def _step_per_answer(
        self, published: F32, answers: ClientAnswers, round: RoundContext, found: F32
    ) -> None:
        changes = answers.inbox.deltas
        if changes is None:
            raise ScenarioError(
                "protocol.server: adam: found step_per 'answer', but clients answer with whole models; set "
                "protocol.client_model to none, or step_per to round"
            )
        n_shared = len(changes[0].shared)
        steps = self._steps + 1 + np.arange(len(changes))
        self._steps += len(changes)
        beta1, beta2 = self.options.betas
        schedule = _Schedule(
            (answers.inbox.weights / answers.inbox.weights.sum()).astype(np.float32),
            (self.options.learning_rate / (1.0 - beta1**steps)).astype(np.float32),
            (1.0 / np.sqrt(1.0 - beta2**steps)).astype(np.float32),
            np.array([beta1, 1.0 - beta1, beta2, 1.0 - beta2, self.options.eps, self._bound], np.float32),
        )
        end = len(published) - n_shared
        tables = (published, self._mean, self._square, found)
        items = (each[:end].reshape(-1, changes[0].rows.shape[1]) for each in tables)  # type: ignore[index]
        shared = (each[end:].reshape(min(n_shared, 1), n_shared) for each in tables)  # type: ignore[index]
        for gradients, part in ((_of_items(changes, end), items), (_of_shared(changes), shared)):
            _step_rows(gradients, schedule, _Tables(*part), round)

    @property
    def _bound(self) -> float:
        return np.inf if self.options.step_bound is None else self.options.step_bound


class _Schedule(NamedTuple):
    """Constants of one round's steps: share, rate and correction of each answer; then betas, eps and bound."""

    shares: F32
    rates: F32
    corrections: F32
    numbers: F32


class _StepColumns(NamedTuple):
    """The columns of one step per round; the means are partly filled, and `found` becomes the next version."""

    published: Any
    aggregated: Any
    mean: Any
    square: Any
    found: Any


class _StepNumbers(NamedTuple):
    """The constants of one step per round; `mean_part` and `square_part` are the filled parts of the means."""

    beta1: float
    beta2: float
    mean_part: float
    square_part: float
    rate: float
    eps: float
    bound: float


class _Tables(NamedTuple):
    """Rows of the published version, of both moments, and of the next version."""

    published: Any
    mean: Any
    square: Any
    found: Any


class _Gradients(NamedTuple):
    """Deltas of all answers by row: row r has ``rows[places[r]:places[r + 1]]``, in ascending order of answers."""

    places: I64
    answers: I64
    rows: F32


def _of_items(changes: Any, size: int) -> _Gradients:
    """Return the deltas of items; `size` is the number of values in the table."""
    each: list[ModelDelta] = list(changes)
    items = np.concatenate([change.items for change in each])
    rows = np.concatenate([change.rows for change in each])
    order = np.argsort(items, kind="stable")
    answers = np.repeat(np.arange(len(each)), [len(change.items) for change in each])[order]
    places = np.searchsorted(items[order], np.arange(size // max(rows.shape[1], 1) + 1))
    return _Gradients(places, answers, rows[order])


def _of_shared(changes: Any) -> _Gradients:
    """Return the deltas of the shared weights, as one long row."""
    rows = np.stack([change.shared for change in changes])
    return _Gradients(np.array([0, len(rows)]), np.arange(len(rows)), np.ascontiguousarray(rows, np.float32))


def _step_rows(gradients: _Gradients, schedule: _Schedule, tables: _Tables, round: RoundContext) -> None:
    """Step all rows of the tables, divided among the threads."""
    step, n_rows = jit_cached(_steps_of_rows), len(tables.published)
    edges = np.linspace(0, n_rows, round.threads.size + 1).astype(int).tolist()

    def step_in(part: int) -> None:
        some = slice(edges[part], edges[part + 1])
        places = gradients.places[edges[part] : edges[part + 1] + 1]
        step(gradients._replace(places=places), schedule, _Tables(*(table[some] for table in tables)))

    round.threads.run(step_in)


def _steps_of_rows(gradients: _Gradients, schedule: _Schedule, tables: _Tables) -> None:
    """Set `found` to the published rows plus the mean of each answer's step; continue both means."""
    places, answers, rows = gradients
    shares, rates, corrections, numbers = schedule
    published, mean, square, found = tables
    beta1, rest1, beta2, rest2, eps, bound = numbers
    n_answers, width = len(shares), published.shape[1]
    none = np.zeros(width, np.float32)
    for r in range(len(published)):
        m, v, moved = mean[r], square[r], np.zeros(width, np.float32)
        at, end = places[r], places[r + 1]
        at_rest = True
        for k in range(width):
            if np.float64(m[k]) ** 2 > 1e-30 * np.float64(v[k]):
                at_rest = False
        first = 0
        if at_rest:  # steps below 1e-15 of the rate, until an answer changes the row: only the square decays
            m[:] = np.float32(0.0)
            first = answers[at] if at < end else n_answers
            v *= np.float32(float(beta2) ** first)
        for answer in range(first, n_answers):
            row = none
            if at < end and answers[at] == answer:
                row = rows[at]
                at += 1
            share, rate, correction = shares[answer], rates[answer], corrections[answer]
            for k in range(width):
                m[k] = beta1 * m[k] + rest1 * row[k]
                v[k] = beta2 * v[k] + rest2 * row[k] * row[k]
                step = rate * m[k] / (np.sqrt(v[k]) * correction + eps)
                moved[k] += share * min(max(step, -bound), bound)
        for k in range(width):
            found[r, k] = published[r, k] + moved[k]


def _step(columns: _StepColumns, numbers: _StepNumbers) -> None:
    """Set `found` to the next version and continue both means in one pass."""
    published, aggregated, mean, square, found = columns
    beta1, beta2, mean_part, square_part, rate, eps, bound = numbers
    for k in range(len(published)):
        change = np.float64(aggregated[k]) - np.float64(published[k])
        mean[k] = beta1 * mean[k] + (1.0 - beta1) * change
        square[k] = beta2 * square[k] + (1.0 - beta2) * (change * change)
        step = rate * (mean[k] / mean_part) / (np.sqrt(square[k] / square_part) + eps)
        found[k] = np.float64(published[k]) + min(max(step, -bound), bound)
