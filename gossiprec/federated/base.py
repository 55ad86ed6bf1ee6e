"""The interface of recommenders: additions to the clients' training, their uploads, and the coordinator's part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions, Options
from gossiprec.base.registry import registry_name
from gossiprec.data.split import TrainingData
from gossiprec.federated.client_context import AnalyticTerm, ClientContext, PersonalModels
from gossiprec.federated.coordinator_hook import CoordinatorContext, CoordinatorHook
from gossiprec.models.base import BlockRole, Layout, Model
from gossiprec.models.base.analytic_gradients import AnalyticGradient, defined_by_same_class
from gossiprec.models.feeds import PointwiseFeed
from gossiprec.models.feeds.base import Columns
from gossiprec.rules.servers.base import ALONE, Extras, ThreadPoolLike

if TYPE_CHECKING:
    from torch import Tensor


class Recommender(ABC):
    """The additions of a federated recommender to a model.

    Parameters
    ----------
    options : Options
        Of the class's own type.
    model : Model
    negatives : int
        Negatives per positive: samples consist of a positive followed by its negatives.
    learning_rate : float
        The clients' learning rate.

    Attributes
    ----------
    threads : ThreadPoolLike
        For work on several clients together; results do not depend on them.
    """

    threads: ThreadPoolLike = ALONE
    Options: ClassVar[type[Options]] = NoOptions

    modules: ClassVar[tuple[str, ...]] = ()
    """Modules that it imports late: a run and its dry run import them first, so that a missing one fails early."""

    adds_to_loss: ClassVar[bool] = True
    """Whether :meth:`loss` adds to the model's loss; if not, clients train by the model's analytic gradient."""

    loss_weights: ClassVar[tuple[str, ...]] = ()
    """The options that multiply a loss: each must change results by more than rounding, which the contract checks."""

    tells_first: ClassVar[bool] = False
    """Whether clients upload about their users before they train, by the version they were sent, not afterwards."""

    def __init__(self, options: Any, model: Model, *, negatives: int, learning_rate: float) -> None:
        self.options = options
        self.model = model
        self.negatives = negatives
        self.learning_rate = learning_rate

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse a model, or batches, that the recommender does not support.

        Raises
        ------
        ScenarioError
        """
        name, of_model = registry_name(self), registry_name(self.model)
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
        """Compile the loops for clients and the coordinator other than training, before the first round."""

    def draws(self, layout: Layout, samples: Columns, draw: np.random.Generator) -> tuple[Columns, Columns]:
        """Return the random draws of one optimizer step on some samples.

        Returns
        -------
        of_step : mapping of str to ndarray
            The same shape at every step.
        of_samples : mapping of str to ndarray, shape (n_samples, ...)
            One row per sample.
        """
        return {}, {}

    @abstractmethod
    def loss(
        self, p: Mapping[str, Tensor], batch: Mapping[str, Tensor], extras: Mapping[str, Tensor]
    ) -> Tensor:
        """Return the loss that a client's step lowers.

        Parameters
        ----------
        p, batch : mapping of str to Tensor
            As of :meth:`gossiprec.models.base.Model.loss`, together with the arrays from :meth:`draws`. Rows of padding
            have ``weights`` 0 and zeros. A client's model has the items that it touches, numbered from 0.
        extras : mapping of str to Tensor
            The coordinator's extras, sent with the version.
        """

    def more_samples(self, node: int, positives: I32, extras: Extras) -> Columns:
        """Return further samples that a client learns from, taken from its extras, as columns of its feed.

        Parameters
        ----------
        node : int
            Index of the client's row in extras for single clients.
        positives : ndarray of int32, shape (n_positives,)
            Its training items, ascending; none of them may be returned.
        extras : mapping of str to ndarray
            The extras that the client was sent.

        Returns
        -------
        mapping of str to ndarray, shape (n_samples,)
            Different items, and labels from 0 to 1; they come after all others. Empty if there are none.
        """
        return {}

    def changed_samples(self, drawn: Columns, client: ClientContext, draw: np.random.Generator) -> Columns:
        """Return the samples that a client learns from, changed from those of its feed, with the same columns.

        Parameters
        ----------
        drawn : Columns
            Must not be changed.
        client : ClientContext
        draw : numpy.random.Generator
            Of this local update, or of all updates of the client (``training.negatives_drawn: once``).
        """
        return drawn

    @property
    def upload_attack(self) -> tuple[str, Mapping[str, Any]] | None:
        """Name and options of the requested attack on uploads (:mod:`.adversaries.attacks.uploads`), or None."""
        return None

    def told_width(self, layout: Layout) -> int:
        """Return the number of values about its user that a client uploads with an update, 0 if it uploads none."""
        return 0

    def told_rows(self, clients: Sequence[ClientContext]) -> F32:
        """Return the vectors that some clients upload about their users, shape (n, told_width); by default their rows.

        Parameters
        ----------
        clients : sequence of ClientContext
            Clients with one version and the same extras. The vector of one must not depend on the others.
        """
        return np.stack([client.own for client in clients])

    @property
    def told_epsilon(self) -> float | None:
        """Privacy budget that each upload about a user spends, or None if it is not known."""
        return None

    def personal(self, clients: I64, version: F32, extras: Extras) -> PersonalModels | None:
        """Return the models that some clients recommend by, or None if they use the version published last.

        Parameters
        ----------
        clients : ndarray of int64, shape (n_clients,)
        version : ndarray of float32, shape (n_columns,)
            The version published last.
        extras : mapping of str to ndarray
            The extras sent with it.
        """
        return None

    def own_part(self, node: int, extras: Extras) -> Columns:
        """Return one client's part of the extras, added to the arrays from :meth:`draws` at every step."""
        return {}

    def analytic_term(self, gradient: AnalyticGradient) -> AnalyticTerm | None:
        """Return the analytic gradient of the terms that :meth:`loss` adds, or None to use autograd, which is slower.

        Parameters
        ----------
        gradient : AnalyticGradient
            The model's analytic gradient.
        """
        return None

    def contributed(self, split: TrainingData, seed: int) -> Any:
        """Return the clients' contribution to the coordinator before the first round, or None.

        This runs on the clients' side: the coordinator sees the returned value, and nothing else of the split.

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
        """Return sections for the run's summary, computed with the ground truth.

        Parameters
        ----------
        split : TrainingData
        contribution : object or None
            The value that :meth:`contributed` returned.
        between : CoordinatorHook or None
            The coordinator's part at the end of the run.
        own : ndarray of float32, shape (n_users, user_width)
            The rows that clients keep for their users.
        """
        return {}

    def between(self, known: CoordinatorContext) -> CoordinatorHook | None:
        """Return the coordinator's part between slices, or None."""
        return None


def overrides_method(recommender: Recommender, method: str) -> bool:
    """Return whether a recommender overrides a method that has a default."""
    return getattr(type(recommender), method) is not getattr(Recommender, method)


def overrides_term(recommender: Recommender) -> bool:
    """Return whether a recommender's analytic term belongs to its own loss; False for a subclass with another loss."""
    return defined_by_same_class(recommender, "analytic_term", "loss", "draws")
