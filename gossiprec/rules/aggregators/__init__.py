"""Aggregation rules combine the models that a node receives: one file per rule, and the option that names a rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I32, I64, Bools
from gossiprec.base.options import NoOptions, Options, RegisteredName, build_registered, registered_name
from gossiprec.base.registry import Registry
from gossiprec.runs.checkpoint_state import Stateful

Invalid: TypeAlias = Literal["fatal", "discard"]

BLOCK = 2**22
"""Numbers of an inbox that are processed per block: 16 MiB."""


@dataclass(frozen=True)
class ModelDelta:
    """The change that a client made to the version that it was sent: trained value minus sent value.

    Attributes
    ----------
    items : ndarray of int32, shape (n_touched,)
        The items that the client touched, ascending.
    rows : ndarray of float32, shape (n_touched, item_width)
    shared : ndarray of float32, shape (n_shared,)
    """

    items: I32
    rows: F32
    shared: F32

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite."""
        return bool(np.isfinite(self.rows).all() and np.isfinite(self.shared).all())


class RowsLike(Protocol):
    """Stacked models: an array of shape (n_rows, n_columns), or an object with the same interface."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and columns."""

    def __getitem__(self, at: tuple[npt.NDArray[np.integer], slice], /) -> npt.NDArray[np.floating]:
        """Return some columns of some rows."""


@runtime_checkable
class SummableRows(RowsLike, Protocol):
    """Models that compute sums over all of them without being materialised one by one."""

    def are_finite(self, places: npt.NDArray[np.integer]) -> Bools:
        """Return whether some rows, and their deltas, are finite."""

    def weighted_sum(self, places: npt.NDArray[np.integer], shares: F64) -> F32:
        """Return the sum of some rows weighted by their shares, rounded from double precision; shape (n_columns,)."""


def as_summable_rows(rows: Any) -> SummableRows | None:
    """Return rows that are :class:`SummableRows`, or None for arrays; ``isinstance`` would take 80 us."""
    return rows if hasattr(rows, "weighted_sum") else None


@dataclass(frozen=True)
class Inbox:
    """The models that a node has received since its model was last read, in order of arrival.

    Attributes
    ----------
    rows : RowsLike of float32 or float16, shape (n_rows, n_columns)
        The stored versions; columns are those that receivers merge.
    row_index : ndarray of int, shape (n_received,)
        The rows of the received versions.
    weights : ndarray of float64, shape (n_received,)
        Weight of each, above 0: by the rule's own :meth:`Aggregator.weights` or the protocol's, and staleness.
    own_weight : float
        Weight of the receiver's own model; 0 if it is not one of the candidates (a coordinator's).
    deltas : sequence of ModelDelta or None
        The received updates if nodes send updates; None if they send versions.
    """

    rows: RowsLike
    row_index: npt.NDArray[np.integer]
    weights: F64
    own_weight: float = 0.0
    deltas: Sequence[ModelDelta] | None = None

    def __len__(self) -> int:
        return len(self.row_index)

    def received(self) -> Iterator[tuple[slice, F32]]:
        """Yield blocks of columns with the received models, shape (n_received, n_columns of the block)."""
        n_columns = self.rows.shape[1]
        width = max(1, BLOCK // max(len(self), 1))
        for low in range(0, n_columns, width):
            columns = slice(low, min(low + width, n_columns))
            yield columns, self.rows[self.row_index, columns].astype(np.float32, copy=False)

    def models(self, own: F32) -> Iterator[tuple[slice, F32]]:
        """Yield blocks of columns with the candidate models; the receiver's own comes first, if it has a weight."""
        for columns, received in self.received():
            yield columns, np.vstack([own[columns], received]) if self.own_weight > 0 else received

    @property
    def is_finite(self) -> Bools:
        """Whether each received model or update is finite, shape (n_received,)."""
        if (summing := as_summable_rows(self.rows)) is not None:
            return summing.are_finite(self.row_index)
        if self.deltas is not None:
            return np.array([change.is_finite for change in self.deltas], np.bool_)
        finite = np.ones(len(self), np.bool_)
        for _, received in self.received():
            finite &= np.isfinite(received).all(axis=1)
        return finite

    @property
    def model_weights(self) -> F64:
        """Weight of each of the models that :meth:`models` yields."""
        own = [self.own_weight] if self.own_weight > 0 else []
        return np.concatenate([own, self.weights])


@dataclass(frozen=True)
class RoundSums:
    """The sums over the answers of a round, all that a coordinator learns by secure aggregation.

    Attributes
    ----------
    total : ndarray of float64, shape (n_columns,)
        Weighted sum of what the answers change in the version that their clients were sent.
    weight : float
        Sum of the weights of the answers, above 0.
    touched : ndarray of float64, shape (n_columns,), or None
        For each number, the sum of the weights of the clients that touched its item, and of all clients for shared
        weights; None if the rule does not count items.
    """

    total: F64
    weight: float
    touched: F64 | None = None


class Aggregator(Stateful, ABC):
    """A rule by which a receiver aggregates; each receiver has its own object.

    State that it keeps between inboxes is named in :attr:`checkpointed`.

    Parameters
    ----------
    options : Options
        Options of the class's own type.

    Attributes
    ----------
    streaming : bool
        Whether the rule is only its weights: models are blended one by one as they arrive, without waiting. Any other
        rule needs an inbox: received models are kept until the receiver's model is next read.
    is_robust : bool
        Whether one non-finite or huge model in seven does no harm. No streaming rule has this property.
    propagates_nonfinite : bool
        Whether a value that is not finite, in any model or delta, makes a value of the result non-finite, as in a
        sum; and the rule has no state. Received models are then checked only if the result is not finite.
    from_sums : bool
        Whether :meth:`reduce_sums` computes the result from sums over a round's answers.
    counts_items : bool
        Whether :meth:`reduce_sums` needs :attr:`RoundSums.touched`.
    """

    Options: ClassVar[type[Options]] = NoOptions
    streaming: ClassVar[bool] = False
    is_robust: ClassVar[bool] = True
    propagates_nonfinite: ClassVar[bool] = False
    from_sums: ClassVar[bool] = False
    counts_items: ClassVar[bool] = False

    def __init__(self, options: Any) -> None:
        self.options = options

    @property
    def uses_deltas(self) -> bool:
        """Whether the rule reads :attr:`Inbox.deltas` (``over: touched``), so that nodes must send updates."""
        return getattr(self.options, "over", "all") == "touched"

    @property
    def takes_parts(self) -> bool:
        """Whether received models may lack numbers, because each number is reduced by itself: a mean does."""
        return self.streaming

    @property
    def min_models(self) -> int:
        """Minimum number of models for the rule to be itself; a run that expects fewer is refused."""
        return 1

    @property
    def enough(self) -> int:
        """Number of models from which the rule is the defence that its name promises; a run counts smaller inboxes."""
        return self.min_models

    @property
    def assumed_poisoners(self) -> int | None:
        """Largest number of poisoned models in an inbox that the options assume; None if they assume no number."""
        return None

    def breakdown(self, n: int) -> int:
        """Return the number of arbitrary models, out of n, that cannot make the result arbitrary.

        By default one in seven for a robust rule, and none for any other.
        """
        return n // 7 if self.is_robust and not self.streaming else 0

    def weights(self, n_positives: I64) -> F64:
        """Return the weight of every user's models, above 0, shape (n_users,): equal by default."""
        return np.ones(len(n_positives))

    def aggregate(self, own: F32, inbox: Inbox) -> F32:
        """Return :meth:`reduce`'s model, or the own one if the inbox is empty."""
        return self.reduce(own, inbox) if len(inbox) else own

    @abstractmethod
    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the model with which the receiver continues.

        Parameters
        ----------
        own : ndarray of float32, shape (n_columns,)
            The receiver's model: items and shared weights; with a user table, that too. A coordinator's is the
            version that it published last. Must not be changed.
        inbox : Inbox
            An inbox with at least one model.

        Returns
        -------
        ndarray of float32, shape (n_columns,)
        """

    def reduce_sums(self, own: F32, sums: RoundSums) -> F32:
        """Return the next version of a coordinator that only learns the sums of a round.

        Parameters
        ----------
        own : ndarray of float32, shape (n_columns,)
            The version that the clients were sent.
        sums : RoundSums
            The sums of a round with at least one answer.

        Returns
        -------
        ndarray of float32, shape (n_columns,)
        """
        raise NotImplementedError(f"{type(self).__name__} reduces sums but does not define reduce_sums()")


@dataclass(frozen=True)
class InboxConfig:
    """A rule that needs an inbox, as a protocol or a policy configures it.

    Attributes
    ----------
    name : str
        Registered name of the rule.
    make : callable
        Function that returns a rule for one receiver.
    buffer : int or None
        Number of latest models that are aggregated; None for all.
    expected : int
        Number of models that wait at the same time, for the estimate of memory.
    together : int or None
        Number of models that are aggregated together if none is late or lost; None for all that wait.
    invalid : str
        How to treat a model with a value that is not finite: ``fatal`` ends the run, ``discard`` leaves it out.
    """

    name: str
    make: Callable[[], Aggregator]
    buffer: int | None
    expected: int
    together: int | None = None
    invalid: Invalid = "fatal"


AGGREGATORS: Registry[type[Aggregator]] = Registry("aggregator", __name__, group="aggregators")


def make_aggregator(spec: Any) -> Aggregator:
    """Return a rule for one receiver, as specified by an option of type :data:`Rule`."""
    return build_registered(AGGREGATORS, spec)


Rule: TypeAlias = Annotated[str | dict[str, Any], RegisteredName(AGGREGATORS)]
"""The name of a registered aggregator, or ``{name: ..., options}``."""


def reject_delta_rules(spec: Any, key: str, senders: str, remedy: str = "") -> None:
    """Refuse a rule that reduces updates if whole models are sent.

    Parameters
    ----------
    spec : str or mapping
        The option that specifies the rule.
    key : str
        The key of this option.
    senders : str
        Name of the senders.
    remedy : str
        Another possible fix.

    Raises
    ------
    ValueError
        If the rule reduces updates.
    """
    if not make_aggregator(spec).uses_deltas:
        return
    over = isinstance(spec, dict) and "over" in spec
    which, other = (" with over: touched", "set over to all") if over else ("", "choose another rule")
    raise ValueError(
        f"found {key} {registered_name(spec)!r}{which}, which reduces updates, but {senders} send whole models; "
        f"{remedy}{other}"
    )
