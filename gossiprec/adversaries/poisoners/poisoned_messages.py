"""Messages of poisoners: from the gradient to an update, with its start and its size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gossiprec.adversaries.poisoners import Poisoner, draw_user_rows, no_change
from gossiprec.base.arrays import F32
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.messages import Forgery, MessagePayload, PushContext
from gossiprec.compute.scorer import Scorer
from gossiprec.models.feeds.base import Feed
from gossiprec.numerics.torch_setup import single_torch_thread
from gossiprec.rules.aggregators import ModelDelta

STD = 0.01
"""Standard deviation of the synthetic client's row."""


@dataclass(frozen=True)
class PoisonedMessages(Forgery):
    """Messages of poisoners: minus a multiple of the gradient; no change before the start.

    Attributes
    ----------
    name : str
        Name of the poisoner.
    poisoner : Poisoner
    start : int
        The first poisoned round.
    rate : float
        The clients' learning rate.
    boost : float
        Factor of the message.
    clip : float or None
        Norm to which the delta of each item's row is finally scaled down.
    clip_shared : float or None
        Norm to which the delta of the shared weights is finally scaled down.
    norm : callable or None
        Function from a version and a push to the norm of rows before boosting; None to use rate times gradient.
    memory_numbers : int
        Count of numbers that the poisoner keeps for each node.
    """

    name: str
    poisoner: Poisoner
    start: int
    rate: float
    boost: float = 1.0
    clip: float | None = None
    clip_shared: float | None = None
    norm: Callable[[MessagePayload, PushContext], float] | None = None
    memory_numbers: int = 0

    def forge(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the delta of the message."""
        if push.round < self.start:
            return no_change(sent)
        wanted = None if self.norm is None else self.norm(sent, push)
        shape, n_shared = sent.items.shape, len(sent.shared)
        with single_torch_thread():
            found = self.poisoner.gradient(sent, push)
        self._check(found, shape, n_shared, push)
        norms = np.linalg.norm(np.asarray(found.rows, np.float64), axis=1)
        factor = self.rate * self.boost
        if wanted is not None and norms.any():
            factor = self.boost * wanted / float(np.median(norms[norms > 0]))
        rows, shared = (-factor * np.asarray(part, np.float64) for part in (found.rows, found.shared))
        if self.clip is not None:
            rows *= np.minimum(1.0, self.clip / np.maximum(factor * norms, 1e-300))[:, None]
        if self.clip_shared is not None:
            shared *= min(1.0, self.clip_shared / max(float(np.linalg.norm(shared)), 1e-300))
        with np.errstate(over="ignore"):  # is refused
            change = ModelDelta(
                np.asarray(found.items, np.int32), rows.astype(np.float32), shared.astype(np.float32)
            )
        self._check(change, shape, n_shared, push)
        return change

    def _check(self, change: ModelDelta, shape: tuple[int, ...], n_shared: int, push: PushContext) -> None:
        """Refuse a delta that does not fit the version.

        Raises
        ------
        ScenarioError
            If the shapes, the items or the values are invalid; the message names the poisoner, the node and the
            round.
        """
        which = f"attackers: {self.name}: the message of node {push.node} in round {push.round}"
        items, (n_items, width) = np.asarray(change.items), shape
        found = (items.shape, np.shape(change.rows), np.shape(change.shared))
        if found != ((items.size,), (items.size, width), (n_shared,)):
            raise ScenarioError(
                f"{which} contains items, rows and shared weights of shapes {', '.join(map(str, found))}; "
                f"expected a row of {width} values for each item, and {n_shared} shared weights"
            )
        if items.size and (items[0] < 0 or items[-1] >= n_items or (np.diff(items) <= 0).any()):
            raise ScenarioError(
                f"{which} contains items {items.tolist()}; expected ascending numbers from 0 to {n_items - 1}"
            )
        if not (np.isfinite(change.rows).all() and np.isfinite(change.shared).all()):
            raise ScenarioError(
                f"{which} contains NaN or infinite values; lower training.learning_rate if the model has "
                "diverged, or lower boost; otherwise fix the poisoner"
            )


@dataclass(frozen=True)
class SimulatedClient:
    """A client trained on random items, to measure the size of clients' deltas.

    A poisoner knows its version and how clients train, but sees no client's update: so it makes one.

    Attributes
    ----------
    scorer : Scorer
    empty_feed : Feed
        A feed without data.
    n_positives : int
        Number of items that an average client has trained on.
    """

    scorer: Scorer
    empty_feed: Feed
    n_positives: int

    def __call__(self, sent: MessagePayload, push: PushContext) -> float:
        """Return the median norm of row deltas in the local update of such a client."""
        draw, layout = push.generator("made-up-client"), self.scorer.layout
        n_items = layout.n_items
        items = draw.choice(n_items, min(self.n_positives, n_items - 1), replace=False)
        start: F32 = np.zeros(layout.row_size, np.float32)
        start[layout.users] = draw_user_rows(draw, 1, layout, STD)[0]
        start[layout.items], start[layout.shared] = sent.items.ravel(), sent.shared
        feed = self.empty_feed.for_items(items)
        seed = int(draw.integers(2**63))
        trained = self.scorer.train_like_node(feed, start, updates=1, seed=seed, as_uploaded=True)
        moved = trained[layout.items].reshape(n_items, -1) - sent.items
        norms = np.linalg.norm(moved.astype(np.float64), axis=1)
        return float(np.median(norms[norms > 0])) if norms.any() else 0.0
