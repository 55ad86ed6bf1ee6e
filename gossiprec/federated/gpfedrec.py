"""GPFedRec: a table of items for every client, by a graph of the clients that the coordinator builds from their items.

References
----------
C. Zhang, G. Long, T. Zhou, Z. Zhang, P. Yan, B. Yang, "GPFedRec: graph-guided personalization for federated
recommendation", KDD 2024 (arXiv 2305.07866), and its public code (Zhangcx19/GPFedRec). There each client also keeps a
perceptron of its own; here the score function is that of :mod:`gossiprec.federated.pfedrec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST
from gossiprec.federated import RECOMMENDERS, AnalyticTerm, CoordinatorContext, CoordinatorHook
from gossiprec.federated.pfedrec import FirstScoreFunction, PFedRec, PFedRecOptions, hold_last
from gossiprec.models.base import Layout
from gossiprec.models.base.contrastive import TINY
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.feeds.base import Columns
from gossiprec.rules.servers import ClientAnswers, Extras, RoundContext

if TYPE_CHECKING:
    from torch import Tensor

MOST_BYTES = 2**31
"""Largest size in bytes of what :meth:`GPFedRec.coordinator_bytes` counts."""
AT_ONCE = 4096, 16
"""Columns of which products are added up in single precision, and answers that are read together."""
TAIL = 2
"""Numbers at the end of an item's row that never move: a one for the bias, and the item's own number."""


class GPFedRecOptions(PFedRecOptions):
    """Options of GPFedRec."""

    guide_weight: float = Field(default=1.0, ge=0)
    """lambda, weight of the mean squared distance of a client's items from the table that it is sent"""
    neighbours: int = Field(default=0, ge=0, le=LARGEST)
    """number of nearest clients, itself among them, that a table is the mean of; 0 takes all above the threshold"""
    threshold: float = Field(default=1.0, ge=0)
    """multiple of the mean similarity above which clients are neighbours"""
    layers: int = Field(default=1, ge=1, le=LARGEST)
    """number of propagations along the graph"""
    graph: Literal["similarity", "distance"] = "similarity"
    """similarity: neighbours have similar items; distance: they have different ones, as in the public code"""


def neighbour_weights(closeness: F64, neighbours: int, threshold: float) -> F64:
    """Return the weight of each client (column) in the table of each (row), shape (n, n); rows add up to 1."""
    if neighbours:
        nearest = np.argsort(-closeness, axis=1, kind="stable")[:, :neighbours]
        chosen = np.zeros(closeness.shape, np.bool_)
        np.put_along_axis(chosen, nearest, True, axis=1)
    else:
        chosen = closeness > closeness.mean() * threshold
        alone = np.flatnonzero(~chosen.any(axis=1))
        chosen[alone, alone] = True
    return chosen / chosen.sum(axis=1, keepdims=True)


@RECOMMENDERS.register("gpfedrec")
class GPFedRec(PFedRec):
    """Clients keep their items near to a table of their own, the mean of their neighbours' items."""

    Options = GPFedRecOptions
    options: GPFedRecOptions
    loss_weights = ("guide_weight",)

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse models other than a linear unit, and rows without place for the bias and the item's number."""
        super().check(layout, full_batches=full_batches)
        if not self.options.bias or layout.item_width <= TAIL:
            raise ScenarioError(
                f"recommender: gpfedrec uses the last two numbers of a row for a bias and the item's number; found "
                f"bias {self.options.bias} and rows of {layout.item_width}; set bias to true and model.dim to 3 or more"
            )

    def client_extras(self, node: int, extras: Extras) -> Columns:
        """Return the client's own table, shape (n_items, d)."""
        return {"guide": extras["guides"][node]}

    def loss(self, p: TensorMap, batch: TensorMap, extras: TensorMap) -> Tensor:
        """Return the cross-entropy and lambda R(q, r), over the items that the client touches."""
        rows, rate = hold_last(p["items"], TAIL), self.options.item_rate or self.learning_rate
        held, guide = rows.detach(), batch["guide"]
        scaled = held + rate / self.learning_rate * (rows - held)
        items = held[:, -1].round().long().clamp(0, guide.shape[0] - 1)
        away = (scaled[:, :-TAIL] - guide[items]).square() * held[:, -TAIL:-1]  # padding has no one
        total = self.model.loss({**p, "users": hold_last(p["users"], 1), "items": scaled}, batch)
        return total + self.options.guide_weight * away.sum() / (guide.shape[0] * guide.shape[1])

    def analytic_term(self, gradient: CompiledGradient) -> AnalyticTerm:
        """Return the term of the distance from the table, which also scales the items' slopes."""
        from gossiprec.federated import term_kernels

        ratio = (self.options.item_rate or self.learning_rate) / self.learning_rate
        numbers = np.array([ratio, self.options.guide_weight])
        return AnalyticTerm(term_kernels.pull_to_guide, numbers, extra="guides")

    @classmethod
    def coordinator_bytes(cls, layout: Layout, n_clients: int) -> int:
        """Return the bytes of all clients' tables, twice: last round's are kept while those of the next are made."""
        return 2 * 4 * n_clients * layout.n_items * (layout.item_width - TAIL)

    def coordinator_hook(self, context: CoordinatorContext) -> CoordinatorHook:
        """Return the coordinator's part, which builds the graph and the tables."""
        options, n_clients, layout = self.options, context.n_clients, context.layout
        size = self.coordinator_bytes(layout, n_clients)
        if size > MOST_BYTES:
            raise ScenarioError(
                f"recommender: gpfedrec keeps a table for each client, of this round and the last: found {n_clients} "
                f"clients with tables of {size / 2**30:.1f} GiB; expected at most {MOST_BYTES / 2**30:.0f} GiB; "
                "use fewer users or items, or pfedrec"
            )
        if options.neighbours > n_clients:
            raise ScenarioError(
                f"recommender.neighbours: found {options.neighbours}; expected at most {n_clients}, the clients; "
                "lower it, or set it to 0"
            )
        return GuideTables(context, options)


class GuideTables(FirstScoreFunction):
    """The graph of the clients that have answered, and the tables that follow from it."""

    own_extras = frozenset({"guides"})

    def __init__(self, context: CoordinatorContext, options: GPFedRecOptions) -> None:
        super().__init__(context.layout, context.seed, bias=True, tail=TAIL - 1)
        layout, self._options, self._n_clients = context.layout, options, context.n_clients
        n_numbers = layout.n_items * layout.item_width
        self._moving = np.zeros(n_numbers + layout.n_shared, np.bool_)
        self._moving[:n_numbers] = np.arange(n_numbers) % layout.item_width < layout.item_width - TAIL
        self.extra_bytes = 4 * layout.n_items * (layout.item_width - TAIL)

    def start(self, version: F32, users: F32) -> tuple[F32, F32]:
        """Return the version with the items' numbers, and the same first score function for all."""
        first, rows = super().start(version, users)
        self._restore_tails(first)
        return first, rows

    def _restore_tails(self, version: F32) -> None:
        """Set the numbers at the ends of items' rows, which policies change in uploads."""
        items = self._layout.version_tables(version)["items"]
        items[:, -TAIL], items[:, -1] = 1, np.arange(len(items))

    def step(self, version: F32, answers: ClientAnswers, round: RoundContext) -> tuple[F32, Extras]:
        """Return the mean of the answering clients' tables, and each client's table; without one, that mean."""
        moving, common, clients = self._moving, version.copy(), answers.clients
        self._restore_tails(common)
        guides = self._tables(answers)  # the answers' own tables at first, in the order of the answers
        if len(clients):
            tables, means = guides[: len(clients)], np.empty(guides.shape[1])
            weights = self._weights(tables).astype(np.float32)
            for low in range(0, len(means), AT_ONCE[0]):
                columns = slice(low, low + AT_ONCE[0])
                found = weights @ tables[:, columns]
                guides[clients, columns], means[columns] = found, found.mean(axis=0, dtype=np.float64)
            common[moving] = means
        absent = np.setdiff1d(np.arange(self._n_clients), clients)
        guides[absent] = common[moving]
        shape = self._n_clients, self._layout.n_items, self._layout.item_width - TAIL
        return common, {"guides": guides[: self._n_clients].reshape(shape)}

    def _tables(self, answers: ClientAnswers) -> F32:
        """Return the answering clients' items without the numbers that never move, with a row or more per client."""
        inbox, layout, n_answers = answers.inbox, self._layout, len(answers.clients)
        width, n_numbers = layout.item_width - TAIL, layout.n_items * layout.item_width
        tables = np.empty((max(n_answers, self._n_clients), layout.n_items, width), np.float32)
        for low in range(0, n_answers, AT_ONCE[1]):
            some = inbox.rows[inbox.row_index[low : low + AT_ONCE[1]], 0:n_numbers]
            table = some.reshape(-1, layout.n_items, layout.item_width)[..., :width]
            tables[low : low + len(table)] = table
        return tables.reshape(len(tables), -1)

    def _weights(self, tables: F32) -> F64:
        """Return the weights of the propagated graph of the answering clients, shape (n_answers, n_answers)."""
        products = np.zeros((len(tables),) * 2)
        for low in range(0, tables.shape[1], AT_ONCE[0]):
            part = tables[:, low : low + AT_ONCE[0]]
            products += part @ part.T  # a symmetric product in single precision, added up in double
        norms = np.maximum(np.sqrt(np.diag(products)), TINY)
        closeness, options = products / np.outer(norms, norms), self._options
        if options.graph == "distance":
            closeness = 1 - closeness
        one: F64 = neighbour_weights(closeness, options.neighbours, options.threshold)
        return np.linalg.matrix_power(one, options.layers)
