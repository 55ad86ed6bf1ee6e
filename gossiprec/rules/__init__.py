"""How received models and updates are combined: aggregators, servers, similarities, and the data of public users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from gossiprec.base.arrays import F32, I64
from gossiprec.base.options import Count, Options
from gossiprec.base.ragged import Ragged
from gossiprec.base.registry import Registry

if TYPE_CHECKING:
    from gossiprec.compute.scorer import Scorer
    from gossiprec.models.feeds import Feed

Id = Annotated[int, Field(ge=0)]
Ids = Annotated[tuple[Id, ...], Field(min_length=1)]


class RootDataOptions(Options):
    """The interactions that are public."""

    users: Count | Ids = 5
    """public users: their number, drawn by the seed, or a list of their numbers"""
    items: Ids | None = None
    """the numbers of the items of which these users' interactions are public; null: all items"""

    @field_validator("users", "items", mode="before")
    @classmethod
    def _numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """Name the whole option if it is neither a number nor a list of numbers."""
        listed = isinstance(value, list | tuple) and len(value) > 0
        if listed and all(type(each) is int and each >= 0 for each in value):
            return value
        if value is None and info.field_name == "items":
            return value
        if type(value) is int and value >= 1 and info.field_name == "users":
            return value
        number = "a number from 1, or " if info.field_name == "users" else ""
        raise ValueError(f"found root.{info.field_name} {value!r}; expected {number}a list of numbers from 0")


@dataclass(frozen=True)
class RootData:
    """Computations on root data, each of them a function of its arguments only.

    A model is a version ``[items | shared]``, shape (n_columns,). Users are the rows of the public users, shape
    (n_users, user_width), which the coordinator keeps: none of these functions knows a row of any client.

    Attributes
    ----------
    users : ndarray of int64, shape (n_users,)
        The numbers of the public users, ascending.
    first_rows : ndarray of float32, shape (n_users, user_width)
        Their rows before the first round, drawn by the seed.
    train : callable
        ``train(model, rows, number)`` returns the mean of the models after a local update on each user's root data,
        and the users' rows after it; `number` is the number of the update, for its draws.
    loss : callable
        ``loss(model, rows, number)`` returns the mean over users of the training loss on the samples of
        update `number`.
    gradient : callable
        ``gradient(model, rows, number)`` returns the derivative of this loss, shape (n_columns,).
    scores : callable
        ``scores(model, rows)`` returns the scores of all items for each user, shape (n_users, n_items).
    """

    users: I64
    first_rows: F32
    train: Callable[[F32, F32, int], tuple[F32, F32]]
    loss: Callable[[F32, F32, int], float]
    gradient: Callable[[F32, F32, int], F32]
    scores: Callable[[F32, F32], F32]


class RootSource(Protocol):
    """The users of root data, each with a feed; see :class:`gossiprec.compute.public_users.PublicUsers`."""

    def __init__(self, scorer: Scorer, feed: Feed, users: I64, options: RootDataOptions, seed: int) -> None:
        """Take the users that :meth:`choose` has returned, and the run's feed."""

    @staticmethod
    def choose(options: RootDataOptions, training_items: Ragged, seed: int, key: str) -> I64:
        """Return the numbers of the users, ascending; `key` names the rule in messages."""

    def root_data(self, *, copies: bool) -> RootData:
        """Return the functions on the data; with `copies` no data of the run can be reached through them."""


ROOT_SOURCES: Registry[type[RootSource]] = Registry("source of root data", "gossiprec.compute")


class UsesRootData:
    """A rule or server with root data, which it has from before the first round: mix it in as the first base class."""

    root_source: ClassVar[str] = "public-users"
    """Registered name of the source."""
    options: Any
    root: RootData
    """The root data; a run sets it."""

    @property
    def root_options(self) -> RootDataOptions:
        """The option ``root``, which says what is public."""
        return self.options.root


class ReportsFindings:
    """A rule or server of a coordinator that reports numbers of its own, with which studies and reports deal."""

    measures: ClassVar[tuple[str, ...]] = ()
    """Names of the numbers."""

    def findings(self) -> dict[str, float]:
        """Return the numbers of the last round by name; NaN if unknown."""
        return dict.fromkeys(self.measures, float("nan"))


def mean_of(parts: list[F32]) -> F32:
    """Return the mean of arrays of one shape, summed in double precision."""
    total: F32 = np.sum(np.stack(parts), axis=0, dtype=np.float64)
    return np.asarray(total / len(parts), np.float32)
