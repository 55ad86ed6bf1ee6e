"""Base classes of data sets and split rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from gossiprec.base.options import NoOptions
from gossiprec.base.options import Options as OptionSet
from gossiprec.data.split import Interactions, Split


@dataclass(frozen=True)
class SyntheticSizes:
    """The size of synthetic data, known before they are drawn.

    Attributes
    ----------
    n_users, n_interactions : int
    like : callable
        Function from a number of users to options of a smaller data set in which users have as many items.
    """

    n_users: int
    n_interactions: int
    like: Callable[[int], OptionSet]


class Dataset(ABC):
    """A source of interactions. Subclasses register under a name and declare `Options`.

    Parameters
    ----------
    options : Options
        An instance of the class's own `Options`.
    """

    Options: ClassVar[type[OptionSet]] = NoOptions

    def __init__(self, options: Any) -> None:
        self.options = options

    @property
    def drawn(self) -> SyntheticSizes | None:
        """Size of the data if they are synthetic and their size is known in advance, else None."""
        return None

    @abstractmethod
    def load(self, seed: int) -> Interactions:
        """Read or draw all interactions; `seed` matters to drawn data only.

        Raises
        ------
        DataError
            If the source is missing or damaged.
        """

    def published_split(self, interactions: Interactions) -> Split | None:
        """Return the split that published work used, or None if there is none.

        Parameters
        ----------
        interactions : Interactions
            The interactions that :meth:`load` returned.
        """
        return None

    def provenance(self) -> dict[str, str]:
        """Return the source of the data, and what a reader should know about them (key ``note``)."""
        return {}


class SplitRule(ABC):
    """A way to divide each user's items into training, validation and test.

    Parameters
    ----------
    options : Options
        An instance of the class's own `Options`.
    """

    Options: ClassVar[type[OptionSet]] = NoOptions

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def __call__(self, interactions: Interactions, dataset: Dataset, seed: int) -> Split:
        """Divide the interactions.

        Raises
        ------
        DataError
            If a user has too few items for it.
        """

    def provenance(self) -> dict[str, str]:
        """Return notes on the division for a reader; call it after the interactions are divided."""
        return {}
