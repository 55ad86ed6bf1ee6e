"""The audit of DP-SGD: local updates on canaries, by the executor and the noise of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import generator
from gossiprec.compute.plan.program import Program
from gossiprec.compute.update_noise import run_with_noise
from gossiprec.data.split import Split
from gossiprec.defences import compute_epsilons
from gossiprec.defences.dp_sgd import DPSGD
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.assembly.prepare import PreparedRun, prepare
from gossiprec.emulation.progress import NullProgress, Progress
from gossiprec.emulation.run.derived_run import derive, without_observers
from gossiprec.emulation.run.epsilon_coverage import NodeNoise, check_has_noise
from gossiprec.models.feeds.base import PointwiseFeed
from gossiprec.runs import open_run
from gossiprec.scenario import Scenario

LENGTH = 100.0
"""Length of the user rows from which canaries are trained, so that gradients of samples reach usual clips."""
REACHED = 0.99
"""Share of the clip from which a local update counts as long enough."""


@dataclass(frozen=True)
class PrivacyAudit:
    """A claim, and the lower bound that an audit gives.

    Attributes
    ----------
    claimed : float
        The largest epsilon of an audited node for the audited number of local updates; infinite without noise.
    lower : float
        The lower bound of epsilon at `confidence`.
    delta, confidence : float
    unit : str
        ``interaction`` or ``user``.
    updates : int
        Local updates of each node.
    canaries, guesses, right : int
        Canaries, those that were guessed, and those that were guessed right.
    reach : float or None
        Mean length of a local update on a canary, clipped and without noise, as a share of the clip; None if the unit
        is ``interaction``.
    """

    claimed: float
    lower: float
    delta: float
    confidence: float
    unit: str
    updates: int
    canaries: int
    guesses: int
    right: int
    reach: float | None = None

    @property
    def refuted(self) -> bool:
        """Whether the lower bound exceeds the claim."""
        return self.lower > self.claimed

    @property
    def power_note(self) -> str | None:
        """Why the audit has little power, and what would give it some; None if it can be trusted to have power."""
        how_much = "little power" if self.lower else "no power: it would not find a claim that is too low"
        if self.reach is not None and self.reach < REACHED:
            return (
                f"{how_much}; a local update on a canary has {self.reach:.2g} of the length of the clip, so the noise "
                f"hides it; audit a run with clip_norm at most {self.reach:.2g} times as high, or with a higher "
                "learning rate, and raise --canaries"
            )
        return None if self.lower else f"{how_much}; raise --canaries or --updates"


def audit_privacy(
    path: str | os.PathLike[str],
    *,
    updates: int = 5,
    canaries: int = 8,
    items: Sequence[int] | None = None,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> PrivacyAudit:
    """Return the lower bound of the local epsilon of a run's DP-SGD that an attacker's guesses prove.

    Each defended node trains on canaries that a coin puts into its data, with the run's executor, clipping and noise.
    The attacker knows all but coins and noise; it adds up how local updates move a canary's row along its gradient.

    Parameters
    ----------
    path : path
        The directory of a complete run with the policy ``dp-sgd``.
    updates : int
        Local updates of each node that are audited; the claim is the epsilon of as many.
    canaries : int
        Canary items per node. With the unit ``user`` a node has one at a time, as its only data, in as many trials.
    items : sequence of int, optional
        The canary items of every node; drawn from the items that the user does not have if not given.
    confidence : float
    progress : Progress, optional
        Receives progress messages.

    Raises
    ------
    DataError
        If canaries are items of a user, or a user leaves too few other items.
    ScenarioError
        If the run has no dp-sgd, entries with several units, or a model that is not made of user and item rows.
    LogError
        As in :func:`gossiprec.network_epsilon`.

    Notes
    -----
    The start is the worst, as a received model may be: a canary's row is 0, and user rows are so long that its gradient
    has the length of the clip. There are no negatives, so that a canary is one sample.
    """
    run, progress = open_run(path), progress or NullProgress()
    _check_options(updates, canaries, confidence)

    def change(scenario: Scenario) -> Scenario:
        training = scenario.training.model_copy(update={"negatives": 0})
        return without_observers(check_has_noise(run.path, scenario)).with_(training=training)

    game = derive(run, change, lambda scenario: _Game(scenario, _unit(scenario, run.path)))
    progress.phase("training canaries")
    scores, members = game.play_all(canaries, items, updates)
    noise, users = game.noise
    claim = float(_claims(noise, users, updates).max())
    delta = float(np.nanmax(noise.delta[users]))
    lower, guesses, right = audit_scores(scores, members, delta, confidence)
    unit = game.unit
    reach = float(np.mean(game.reaches)) if unit == "user" else None
    return PrivacyAudit(claim, lower, delta, confidence, unit, updates, len(members), guesses, right, reach)


def _check_options(updates: int, canaries: int, confidence: float) -> None:
    if updates < 1 or canaries < 1 or not 0.5 < confidence < 1:
        raise ScenarioError(
            f"audit: found updates {updates}, canaries {canaries}, confidence {confidence:g}; expected at least one "
            "update and one canary, and a confidence between 0.5 and 1"
        )


def _claims(noise: NodeNoise, users: I64, updates: int) -> F64:
    """Return the claimed epsilon of users, for a number of local updates."""
    epochs = (noise.epochs[users] * updates).astype(np.float64)
    claims = compute_epsilons(noise.multiplier[users], epochs, float(np.nanmin(noise.delta[users])))
    return np.where(noise.multiplier[users] > 0, claims, np.inf)


class _Game:
    """Trials in which nodes train on canaries.

    Parameters
    ----------
    scenario : Scenario
    unit : str

    Attributes
    ----------
    reaches : list of float
        With the unit ``user``, the length of each local update without noise, as a share of the clip.
    """

    def __init__(self, scenario: Scenario, unit: str) -> None:
        self._scenario, self._split, self.unit = scenario, load_data(scenario), unit
        self.reaches: list[float] = []

    def play_all(self, canaries: int, items: Sequence[int] | None, updates: int) -> tuple[F64, Bools]:
        """Return the scores of all canaries, and which were trained on; with the unit ``user`` one is in a trial."""
        n_trials, per_trial = (canaries, 1) if self.unit == "user" else (1, canaries)
        seed, numbers = self._scenario.seed, range(n_trials)
        drawn = (_draw_canaries(self._split, seed, trial, per_trial, items) for trial in numbers)
        trials = [self.play(some, trial, updates) for trial, some in enumerate(drawn)]
        scores, members = (np.concatenate(part) for part in zip(*trials, strict=True))
        return scores, members

    def play(self, drawn: Mapping[int, I64], trial: int, updates: int) -> tuple[F64, Bools]:
        """Return the score of each canary, and whether it was in the data."""
        draws = {user: generator(self._scenario.seed, "canaries", user, trial) for user in drawn}
        coins = {user: draws[user].random(len(items)) < 0.5 for user, items in drawn.items()}
        noisy = self._prepare(drawn, coins)
        plain = self._prepare(drawn, {user: np.ones_like(coin) for user, coin in coins.items()})
        settings = noisy.executor.work.node_settings
        users = np.flatnonzero((settings.clip_norm > 0) | (settings.update_clip > 0))
        self.noise = NodeNoise.of(noisy.components, settings), users
        quiet = plain.executor.work.node_settings
        quiet.noise_multiplier[:] = quiet.update_noise[:] = 0.0
        numbers = range(trial * updates, (trial + 1) * updates)
        scores = [self._scores(noisy, plain, users, drawn, update) for update in numbers]
        return np.sum(scores, axis=0), np.concatenate([coins[user] for user in users.tolist()])

    def _scores(
        self, noisy: PreparedRun, plain: PreparedRun, users: I64, drawn: Mapping[int, I64], update: int
    ) -> F64:
        """Return the change along each canary's gradient by one local update: of its row, or of the whole model."""
        start, found, of_user = _start(plain, users, drawn), [], self.unit == "user"
        moves = [_moves(prepared, start, users, update) for prepared in (noisy, plain)]
        rows = moves if of_user else [_item_rows(plain, part) for part in moves]
        for place, user in enumerate(users.tolist()):
            change, way = (part[place][None] if of_user else part[place, drawn[user]] for part in rows)
            norm = np.linalg.norm(way, axis=1, keepdims=True) + np.finfo(np.float64).tiny
            if of_user:
                clip = plain.executor.work.node_settings.update_clip[user]
                self.reaches.append(min(1.0, float(norm[0, 0] / clip)))
            found.append((change * way / norm).sum(axis=1) / norm.mean())
        return np.concatenate(found)

    def _prepare(self, drawn: Mapping[int, I64], chosen: Mapping[int, Bools]) -> PreparedRun:
        """Return the run of which the users have the chosen canaries, as their only data if they are the unit."""
        split = self._split
        rows = [
            np.union1d(split.train[user] if self.unit == "interaction" else [], drawn[user][chosen[user]])
            for user in range(split.n_users)
        ]
        train = Ragged.from_parts([row.astype(np.int32) for row in rows])
        found = prepare(self._scenario, load=lambda _: replace(split, train=train))
        feed, layout = found.components.feed, found.components.layout
        if not isinstance(feed, PointwiseFeed) or layout.n_users != 1 or not layout.users.stop:
            raise ScenarioError(
                f"model.name: {registry_name(found.components.model)} is not trained on single items with one user row "
                "per node, which the canaries of an audit need; audit the noise with mf or gmf"
            )
        return found


def _unit(scenario: Scenario, path: Any) -> str:
    """Return the unit of protection of a run."""
    units = {policy.options.unit for policy in scenario.policies if isinstance(policy.options, DPSGD.Options)}
    if len(units) != 1:
        raise ScenarioError(
            f"{path}: policies: found {len(units)} units of dp-sgd; expected entries of one unit; audit a run with one"
        )
    return str(units.pop())


def _draw_canaries(
    split: Split, seed: int, trial: int, count: int, items: Sequence[int] | None
) -> dict[int, I64]:
    """Return the canary items of each user.

    Raises
    ------
    DataError
    """
    found = {}
    for user in range(split.n_users):
        own = np.concatenate([split.train[user], split.validation[user], split.test[user]])
        if items is not None:
            taken = np.intersect1d(items, own)
            if len(taken) or not all(0 <= item < split.n_items for item in items):
                problem = f"item {taken[0]} of user {user}" if len(taken) else f"items {list(items)}"
                raise DataError(
                    f"audit: items: found {problem}; expected items from 0 to {split.n_items - 1} that no user has; "
                    "name others, or leave items out"
                )
            found[user] = np.unique(items)[:count]
            continue
        free = np.setdiff1d(np.arange(split.n_items), own)
        if len(free) < count:
            raise DataError(
                f"audit: canaries: found {count}, but user {user} has all but {len(free)} of {split.n_items} items, so "
                "canaries would collide with its items; lower canaries"
            )
        draw = generator(seed, "canary-items", user, trial)
        found[user] = np.sort(draw.choice(free, count, replace=False))
    return found


def _start(prepared: PreparedRun, users: I64, drawn: Mapping[int, I64]) -> F32:
    """Return first models with long user rows and canary rows of zeros, shape (n_users, row_size)."""
    layout, arena = prepared.components.layout, prepared.executor.work.arena
    rows: F32 = np.tile(arena.load(np.array([0])), (len(users), 1))
    items = _item_rows(prepared, rows).copy()
    for place, user in enumerate(users.tolist()):
        items[place, drawn[user]] = 0.0
    rows[:, layout.users] = LENGTH
    rows[:, layout.items] = items.reshape(len(users), -1)
    return rows


def _item_rows(prepared: PreparedRun, rows: Any) -> Any:
    layout = prepared.components.layout
    return rows[:, layout.items].reshape(len(rows), layout.n_items, -1)


def _moves(prepared: PreparedRun, start: F32, users: I64, update: int) -> F64:
    """Return the changes of models by one local update of users, shape (n_users, row_size)."""
    arena, rows = prepared.executor.work.arena, np.arange(len(users))
    program = Program.of_updates(users.astype(np.int32), np.full(len(users), update, np.int32))
    arena.store(rows, start.copy(), np.zeros(len(users), np.uint32) if arena.is_half else None)
    run_with_noise(prepared.executor)(program, rows)
    return arena.load(rows).astype(np.float64) - start


SHARES = (1.0, 0.5, 0.2, 0.05)
"""Shares of the canaries, the surest first, that are guessed; the confidence is divided among them."""
LARGEST_EPSILON = 50.0


def chance_of_guesses(epsilon: float, delta: float, *, canaries: int, guesses: int, right: int) -> float:
    """Return an upper bound of the probability of at least `right` right guesses under (epsilon, delta)-privacy.

    Parameters
    ----------
    epsilon, delta : float
    canaries : int
        m: all canaries, each in the data with probability 1/2.
    guesses, right : int
        r: canaries that were guessed, and the right ones of them.
    """
    from scipy.stats import binom

    coin = 1.0 / (1.0 + np.exp(-epsilon))
    exact = float(binom.sf(right - 1, guesses, coin))
    # below `right` by at most i, with probability sum(...): delta moves that many guesses
    missing = np.arange(1, right + 1)
    below = np.cumsum(binom.pmf(right - missing, guesses, coin))
    return min(1.0, exact + 2.0 * canaries * delta * float((below / missing).max(initial=0.0)))


def lower_epsilon(delta: float, confidence: float, *, canaries: int, guesses: int, right: int) -> float:
    """Return the epsilon that the guesses refute at a confidence: every smaller one is false; 0 if none is.

    The largest value that is returned is :data:`LARGEST_EPSILON`.
    """

    def is_refuted(epsilon: float) -> bool:
        chance = chance_of_guesses(epsilon, delta, canaries=canaries, guesses=guesses, right=right)
        return chance < 1.0 - confidence

    if not is_refuted(0.0):
        return 0.0
    low, high = 0.0, LARGEST_EPSILON
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def audit_scores(scores: F64, members: Bools, delta: float, confidence: float) -> tuple[float, int, int]:
    """Return the largest lower bound from scores of canaries, and the guesses and right guesses that give it.

    The surest canaries are guessed: the highest scores as members, as many of the lowest as non-members.

    Parameters
    ----------
    scores : ndarray of float64, shape (m,)
        High for canaries that seem to be in the data.
    members : ndarray of bool, shape (m,)
    delta : float
    confidence : float
        Of the result, for all shares in :data:`SHARES` together.
    """
    order, best = np.argsort(-scores, kind="stable"), (0.0, 0, 0)
    for share in SHARES:
        half = max(1, round(share * len(scores) / 2))
        half = min(half, len(scores) // 2)
        right = int(members[order[:half]].sum() + (~members[order[len(order) - half :]]).sum())
        one = 1.0 - (1.0 - confidence) / len(SHARES)
        bound = lower_epsilon(delta, one, canaries=len(scores), guesses=2 * half, right=right)
        best = max(best, (bound, 2 * half, right))
    return best
