"""What the emulator needs to know of a recommender: what clients add to their loss, and what the coordinator does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gossiprec.arrays import F32, I32, I64
from gossiprec.data.split import TrainingData
from gossiprec.errors import ScenarioError
from gossiprec.feeds import PointwiseFeed
from gossiprec.feeds.base import Columns
from gossiprec.models.base import BlockRole, Layout, Model
from gossiprec.models.base.analytic_gradients import AnalyticGradient, defined_by_same_class
from gossiprec.options import NoOptions, Options
from gossiprec.recommenders.client_context import AnalyticTerm, ClientContext, PersonalModels
from gossiprec.recommenders.coordinator_hook import CoordinatorContext, CoordinatorHook
from gossiprec.servers.base import ALONE, Extras, ThreadPoolLike

if TYPE_CHECKING:
    from torch import Tensor


class Recommender(ABC):
    """What a federated recommender adds to a model.

    Parameters
    ----------
    options : Options
        Of the class's own type.
    model : Model
    negatives : int
        Of each positive: samples come as a positive, followed by these.
    learning_rate : float
        Of the clients.

    Attributes
    ----------
    threads : Threads
        For what is worked out for several clients at once; results do not depend on them.
    """

    threads: ThreadPoolLike = ALONE
    Options: ClassVar[type[Options]] = NoOptions

    modules: ClassVar[tuple[str, ...]] = ()
    """Modules that it imports late: a run and its dry run import them first, to fail early."""

    adds_to_loss: ClassVar[bool] = True
    """Whether :meth:`loss` is more than the model's; if not, clients train by what is written out for the model."""

    loss_weights: ClassVar[tuple[str, ...]] = ()
    """The options that multiply a loss: each must change results by more than rounding, which the contract checks."""

    tells_first: ClassVar[bool] = False
    """Whether clients tell of their users before they train, by the version that they were sent; else afterwards."""

    def __init__(self, options: Any, model: Model, *, negatives: int, learning_rate: float) -> None:
        self.options = options
        self.model = model
        self.negatives = negatives
        self.learning_rate = learning_rate

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse a model, or batches, that it cannot be added to.

        Raises
        ------
        ScenarioError
        """
        name, of_model = type(self).__name__, type(self.model).__name__
        names = {block.name for role in (BlockRole.USER, BlockRole.ITEM) for block in layout.of(role)}
        if names != {"users", "items"} or self.model.feed is not PointwiseFeed:
            raise ScenarioError(
                f"recommender: {name} requires a model with one row per user and item that learns from "
                f"positives and negatives, which {of_model} is not; choose gmf, mf with cross-entropy, or ncf"
            )
        if not full_batches:
            raise ScenarioError(
                f"recommender: {name} contrasts all of a client's items in one batch; set training.batch_size to full"
            )

    def warm_up(self, layout: Layout) -> None:  # noqa: B027 (most have nothing to compile)
        """Compile what works for clients and the coordinator beside training, before the first round."""

    def draws(self, layout: Layout, samples: Columns, draw: np.random.Generator) -> tuple[Columns, Columns]:
        """Return what is drawn for one optimizer step on some samples.

        Returns
        -------
        of_step : mapping of str to ndarray
            The same shape at every step.
        of_samples : mapping of str to ndarray, shape (n_samples, ...)
            Rows beside the samples.
        """
        return {}, {}

    @abstractmethod
    def loss(
        self, p: Mapping[str, Tensor], batch: Mapping[str, Tensor], extras: Mapping[str, Tensor]
    ) -> Tensor:
        """Return what a client's step is to lower.

        Parameters
        ----------
        p, batch : mapping of str to Tensor
            As of :meth:`gossiprec.models.base.Model.loss`; with what :meth:`draws` gave. Rows of padding have
            ``weights`` 0 and zeros. A client's model has the items that it touches, numbered from 0.
        extras : mapping of str to Tensor
            What the coordinator sent beside the version.
        """

    def more_samples(self, node: int, positives: I32, extras: Extras) -> Columns:
        """Return what a client learns from besides its own samples, of what it was sent: columns of its feed.

        Parameters
        ----------
        node : int
            Of extras for single clients it may look at this row.
        positives : ndarray of int32, shape (n_positives,)
            Its training items, ascending; none of them may be returned.
        extras : mapping of str to ndarray
            What was sent.

        Returns
        -------
        mapping of str to ndarray, shape (n_samples,)
            Different items, and labels from 0 to 1; they come after all others. Empty: none.
        """
        return {}

    def changed_samples(self, drawn: Columns, client: ClientContext, draw: np.random.Generator) -> Columns:
        """Return what a client learns from in place of the samples of its feed: the same columns.

        Parameters
        ----------
        drawn : Columns
            Not to be changed.
        client : AtHand
        draw : numpy.random.Generator
            Of this local update, or of all of the client's (``training.negatives_drawn: once``).
        """
        return drawn

    @property
    def upload_attack(self) -> tuple[str, Mapping[str, Any]] | None:
        """Name and options of the requested attack on uploads (:mod:`gossiprec.attacks.uploads`), or None."""
        return None

    def told_width(self, layout: Layout) -> int:
        """Return how many numbers a client tells of its user beside an update, for the coordinator to see; 0: none."""
        return 0

    def told_rows(self, clients: Sequence[ClientContext]) -> F32:
        """Return what some clients tell of their users, shape (n, told_width); by default their rows.

        Parameters
        ----------
        clients : sequence of AtHand
            With one version and the same extras. What one tells must not depend on the others.
        """
        return np.stack([client.own for client in clients])

    @property
    def told_epsilon(self) -> float | None:
        """What telling of a user once spends of its privacy, each time as much again; None: that is not known."""
        return None

    def personal(self, clients: I64, version: F32, extras: Extras) -> PersonalModels | None:
        """Return what some clients recommend by; None: the version that the coordinator published last.

        Parameters
        ----------
        clients : ndarray of int64, shape (n_clients,)
        version : ndarray of float32, shape (n_columns,)
            That version.
        extras : mapping of str to ndarray
            What was sent beside it.
        """
        return None

    def own_part(self, node: int, extras: Extras) -> Columns:
        """Return what of the extras is about one client, for every step beside what :meth:`draws` gives for it."""
        return {}

    def analytic_term(self, gradient: AnalyticGradient) -> AnalyticTerm | None:
        """Return what :meth:`loss` adds to the model's loss, differentiated; None: autograd does it, more slowly.

        Parameters
        ----------
        gradient : AnalyticGradient
            Of the model.
        """
        return None

    def contributed(self, split: TrainingData, seed: int) -> Any:
        """Return what clients tell the coordinator before the first round; None: nothing.

        This is on the clients' side: the coordinator sees what is returned, and nothing else of the split.

        Parameters
        ----------
        split : TrainingData
            Each client's data; poisoners have none.
        seed : int
        """
        return None

    def report(
        self, split: TrainingData, contribution: Any, between: CoordinatorHook | None, own: F32
    ) -> dict[str, Any]:
        """Return sections for the run's summary, with the truth at hand.

        Parameters
        ----------
        split : TrainingData
        contribution : object or None
            What :meth:`contributed` gave.
        between : Between or None
            The coordinator's part as it is at the end.
        own : ndarray of float32, shape (n_users, user_width)
            The rows that clients keep of their users.
        """
        return {}

    def between(self, known: CoordinatorContext) -> CoordinatorHook | None:
        """Return what the coordinator does between slices; None: nothing."""
        return None


def overrides_method(recommender: Recommender, method: str) -> bool:
    """Whether a recommender has a method of its own where others have the default."""
    return getattr(type(recommender), method) is not getattr(Recommender, method)


def overrides_term(recommender: Recommender) -> bool:
    """Whether a recommender's term is that of its loss, and not inherited by a subclass with another loss."""
    return defined_by_same_class(recommender, "analytic_term", "loss", "draws")
