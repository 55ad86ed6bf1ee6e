"""What a data set and a split rule are: the two things a file in this package may add."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from gossiprec.data.split import Interactions, Split
from gossiprec.options import NoOptions
from gossiprec.options import Options as OptionSet


@dataclass(frozen=True)
class SyntheticSizes:
    """How large a data set is that is drawn, before it is.

    Attributes
    ----------
    n_users, n_interactions : int
    like : callable
        Number of users -> options of a smaller data set whose users have as much.
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
        """How large the data are, if they are drawn and that is known before; None: they are read."""
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
        """Return the split that published work used, or None where there is none.

        Parameters
        ----------
        interactions : Interactions
            What :meth:`load` returned.
        """
        return None

    def provenance(self) -> dict[str, str]:
        """Tell where the data come from, and what a reader should know about them (key ``note``)."""
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
        """Tell, once the interactions are divided, what a reader should know about how they were."""
        return {}
