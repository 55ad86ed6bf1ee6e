"""What the emulator needs to know of an aggregation rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F32, F64, I32, I64, Bools
from gossiprec.eventlog.checkpoint_state import Stateful
from gossiprec.old_names import forward
from gossiprec.options import NoOptions, Options

Invalid: TypeAlias = Literal["fatal", "discard"]

BLOCK = 2**22
"""Numbers of an inbox that are looked at together: 16 MiB."""


@dataclass(frozen=True)
class ModelDelta:
    """What a client has made of the version that it was sent: trained value less sent value.

    Attributes
    ----------
    items : ndarray of int32, shape (n_touched,)
        The items that it touched, ascending.
    rows : ndarray of float32, shape (n_touched, item_width)
    shared : ndarray of float32, shape (n_shared,)
    """

    items: I32
    rows: F32
    shared: F32

    @property
    def is_finite(self) -> bool:
        """Whether all of it is numbers."""
        return bool(np.isfinite(self.rows).all() and np.isfinite(self.shared).all())


class RowsLike(Protocol):
    """Models side by side: an array of shape (n_rows, n_columns), or what can be read like one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    def __getitem__(self, at: tuple[npt.NDArray[np.integer], slice], /) -> npt.NDArray[np.floating]:
        """Return some columns of some rows."""


@runtime_checkable
class SummableRows(RowsLike, Protocol):
    """Models that tell what is asked of all of them without being put together one by one."""

    def are_finite(self, places: npt.NDArray[np.integer]) -> Bools:
        """Return which of some rows, and what they have changed, are numbers alone."""

    def weighted_sum(self, places: npt.NDArray[np.integer], shares: F64) -> F32:
        """Return the sum of some rows, each times its share, rounded from double precision; shape (n_columns,)."""


def as_summable_rows(rows: Any) -> SummableRows | None:
    """Return rows as what they are, or None if they are an array; ``isinstance`` takes 80 us for the same."""
    return rows if hasattr(rows, "weighted_sum") else None


@dataclass(frozen=True)
class Inbox:
    """What a node has received since its model was last read, in order of arrival: the columns that receivers merge.

    Attributes
    ----------
    rows : Rows of float32 or float16, shape (n_rows, n_columns)
        Where versions lie.
    places : ndarray of int, shape (n_received,)
        The rows of those that were received.
    weights : ndarray of float64, shape (n_received,)
        What each counts, above 0: by the rule's own :meth:`Aggregator.weights` or the protocol's, and staleness.
    own_weight : float
        What the receiver's own model counts; 0: it is none of those to choose among (a coordinator's).
    changes : sequence of Change or None
        What was received, where nodes send updates; None: they send versions.
    """

    rows: RowsLike
    places: npt.NDArray[np.integer]
    weights: F64
    own_weight: float = 0.0
    changes: Sequence[ModelDelta] | None = None

    def __len__(self) -> int:
        return len(self.places)

    def received(self) -> Iterator[tuple[slice, F32]]:
        """Yield all columns in turn with the received models, shape (n_received, n_columns of the block)."""
        n_columns = self.rows.shape[1]
        width = max(1, BLOCK // max(len(self), 1))
        for low in range(0, n_columns, width):
            columns = slice(low, min(low + width, n_columns))
            yield columns, self.rows[self.places, columns].astype(np.float32, copy=False)

    def models(self, own: F32) -> Iterator[tuple[slice, F32]]:
        """Yield all columns in turn with the models to choose among: the receiver's own first, if it counts."""
        for columns, received in self.received():
            yield columns, np.vstack([own[columns], received]) if self.own_weight > 0 else received

    @property
    def is_finite(self) -> Bools:
        """Which of what was received is numbers alone, shape (n_received,)."""
        if (summing := as_summable_rows(self.rows)) is not None:
            return summing.are_finite(self.places)
        if self.changes is not None:
            return np.array([change.is_finite for change in self.changes], np.bool_)
        finite = np.ones(len(self), np.bool_)
        for _, received in self.received():
            finite &= np.isfinite(received).all(axis=1)
        return finite

    @property
    def model_weights(self) -> F64:
        """What each of the models counts that :meth:`models` yields."""
        own = [self.own_weight] if self.own_weight > 0 else []
        return np.concatenate([own, self.weights])


class Aggregator(Stateful, ABC):
    """A rule by which a receiver aggregates; one object serves one receiver.

    What it remembers of earlier inboxes is named in :attr:`changing`.

    Parameters
    ----------
    options : Options
        Of the class's own type.

    Attributes
    ----------
    streaming : bool
        The rule is no more than the weights: models are blended one by one as they arrive, and nobody waits. Any other
        rule wants an inbox: what is received is kept until the receiver's model is next read.
    withstands : bool
        One model in seven that is none does no harm: NaN, infinite or huge. No streaming rule does.
    passes_on : bool
        A number that is not finite, in any model or change, makes one of the result's not finite, as in a sum; and the
        rule remembers nothing. What was received is then looked at only where the result is not finite.
    """

    Options: ClassVar[type[Options]] = NoOptions
    streaming: ClassVar[bool] = False
    withstands: ClassVar[bool] = True
    passes_on: ClassVar[bool] = False

    def __init__(self, options: Any) -> None:
        self.options = options

    @property
    def of_changes(self) -> bool:
        """Whether the rule reads :attr:`Inbox.changes`: it is then for nodes that send updates."""
        return False

    @property
    def least(self) -> int:
        """Models that it takes to be what it is; where fewer are to be expected it is refused before the run."""
        return 1

    @property
    def enough(self) -> int:
        """Models from which it is the defence that its name promises; a run counts the inboxes that hold fewer."""
        return self.least

    def weights(self, n_positives: I64) -> F64:
        """Return what every user's models count, above 0, shape (n_users,): all the same, unless the rule says else."""
        return np.ones(len(n_positives))

    def aggregate(self, own: F32, inbox: Inbox) -> F32:
        """Return :meth:`reduce`'s model, or the own one if nothing was received."""
        return self.reduce(own, inbox) if len(inbox) else own

    @abstractmethod
    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the model that the receiver goes on with.

        Parameters
        ----------
        own : ndarray of float32, shape (n_columns,)
            The receiver's model: items and shared weights; with a user table, that too. A coordinator's is the version
            that it published last. Not to be changed.
        inbox : Inbox
            At least one model.

        Returns
        -------
        ndarray of float32, shape (n_columns,)
        """


@dataclass(frozen=True)
class InboxConfig:
    """A rule that wants an inbox, as a protocol or a policy asks for it.

    Attributes
    ----------
    name : str
        Under which the rule is registered.
    make : callable
        Returns a rule for one receiver.
    buffer : int or None
        Only so many of the latest models are aggregated; None: all.
    expected : int
        Models that wait at a time: for the estimate of memory.
    together : int or None
        Models that are aggregated together if none is late or lost; None: as many as wait.
    invalid : str
        What becomes of a model with a number that is not finite: ``fatal`` ends the run, ``discard`` leaves it out.
    """

    name: str
    make: Callable[[], Aggregator]
    buffer: int | None
    expected: int
    together: int | None = None
    invalid: Invalid = "fatal"


forward(__name__)
