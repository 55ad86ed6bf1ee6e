"""The interface of recommenders: additions to the clients' training, their uploads, and the coordinator's part.

A recommender sees each client as a :class:`ClientContext`. A loss that it adds has a formula in torch and may
have an analytic gradient, :class:`AnalyticTerm`; :func:`missing_analytic_gradient` says whether clients can use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions, Options
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import generator
from gossiprec.data.split import TrainingData
from gossiprec.federated.coordinator_hook import CoordinatorContext, CoordinatorHook
from gossiprec.models.base import BlockRole, Layout, Model
from gossiprec.models.base.analytic_gradients import (
    AnalyticGradient,
    PairGradient,
    SequenceGradient,
    defined_by_same_class,
    has_own_gradient,
    has_own_pair_gradient,
    has_own_sequence_gradient,
)
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.feeds import PairwiseFeed, PointwiseFeed, SequenceFeed
from gossiprec.models.feeds.base import Columns, Feed
from gossiprec.old_names import forward, old_members
from gossiprec.rules.servers.base import CALLING_THREAD, Extras, ThreadPoolLike

if TYPE_CHECKING:
    from torch import Tensor


class PersonalModels(NamedTuple):
    """The models that clients recommend by, if they differ from the version that they were sent.

    Attributes
    ----------
    versions : ndarray of float32, shape (n, n_columns)
        The present models, for clients that have not trained.
    of : ndarray of int64, shape (n_clients,)
        Index of each client's version.
    local : float
        Share of its own change that a client adds after it has trained.
    """

    versions: F32
    of: I64
    local: float


@old_members(told="user_upload")
@dataclass(frozen=True, eq=False)
class ClientContext:
    """A client's data for one local update, which must not be changed.

    Attributes
    ----------
    The seed of the run, the client's node, and the number of the update among the node's.
    layout : Layout
        Of whole models.
    positives : ndarray of int32, shape (n_positives,)
        Its training items, ascending.
    history : ndarray of int32, shape (n,)
        The items that its user's state is computed from, in the order of time
        (:meth:`gossiprec.models.feeds.base.Feed.history`).
    own : ndarray of float32, shape (user_width,)
        The present row of its user.
    version : ndarray of float32, shape (n_columns,)
        ``[items | shared]``, as sent.
    extras : mapping of str to ndarray
        The extras sent with the version; of extras for single clients it may read its own row.
    user_upload : ndarray of float32, shape (user_upload_width,), or None
        The vector that it has uploaded about its user, or None before the first upload.
    """

    seed: int
    node: int
    update: int
    layout: Layout
    positives: I32
    history: I32
    own: F32
    version: F32
    extras: Extras
    user_upload: F32 | None = None

    def draw(self, purpose: str) -> np.random.Generator:
        """Return draws that depend only on seed, purpose, node and update."""
        return generator(self.seed, purpose, self.node, self.update)


class KernelStep(NamedTuple):
    """A step of a client's training, for compiled terms: the arrays of gradient kernels and further ones.

    Attributes
    ----------
    core, items, slopes, item_slopes, samples, positives, shape, room
        Of :attr:`gossiprec.models.base.analytic_gradients.AnalyticGradient.fill`.
    places : ndarray of int32, shape (n_samples,)
        The column of each sample's item; a positive, its negatives, the next positive.
    numbers : ndarray of float64
    extra, of_step, of_samples : ndarray
        The arrays named in :class:`AnalyticTerm`; a zero for each that it does not name.
    """

    core: Any
    items: Any
    slopes: Any
    item_slopes: Any
    samples: Any
    positives: Any
    places: Any
    numbers: Any
    extra: Any
    of_step: Any
    of_samples: Any
    shape: Any
    room: Any


@dataclass(frozen=True, eq=False)
class AnalyticTerm:
    """The compiled analytic gradient that a recommender adds to a model's.

    Attributes
    ----------
    add : kernel
        ``add(client)``, compiled by :mod:`gossiprec.native.jit`, adds to the slopes of a :class:`KernelStep`.
    numbers : ndarray of float64
        The kernel's numbers from the options.
    extra : str or None
        Name of the array that the coordinator sends with the version, float32, shape (n, d).
    of_step, of_samples : str or None
        Names of arrays from :meth:`Recommender.draws`: the first is used whole, of the second the rows of positives.
        The samples passed to it are then placeholders, of which only the number is known.
    """

    add: Any
    numbers: F64
    extra: str | None = None
    of_step: str | None = None
    of_samples: str | None = None


@old_members(
    told_width="user_upload_width",
    told_rows="user_uploads",
    told_epsilon="user_upload_epsilon",
    tells_first="uploads_before_training",
    own_part="client_extras",
    more_samples="extra_samples",
    changed_samples="transform_samples",
    personal="personal_models",
    contributed="initial_contribution",
    between="coordinator_hook",
)
class Recommender:
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

    threads: ThreadPoolLike = CALLING_THREAD
    Options: ClassVar[type[Options]] = NoOptions

    modules: ClassVar[tuple[str, ...]] = ()
    """Modules that it imports late: a run and its dry run import them first, so that a missing one fails early."""

    adds_to_loss: ClassVar[bool] = True
    """Whether :meth:`loss` adds to the model's loss; if not, clients train by the model's analytic gradient."""

    loss_weights: ClassVar[tuple[str, ...]] = ()
    """The options that multiply a loss: each must change results by more than rounding, which the contract checks."""

    uploads_before_training: ClassVar[bool] = False
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

    def warm_up(self, layout: Layout) -> None:
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

    def loss(self, p: TensorMap, batch: TensorMap, extras: TensorMap) -> Tensor:
        """Return the loss that a client's step lowers, by default the model's.

        Parameters
        ----------
        p, batch : mapping of str to Tensor
            As of :meth:`gossiprec.models.base.Model.loss`, together with the arrays from :meth:`draws`. Rows of padding
            have ``weights`` 0 and zeros. A client's model has the items that it touches, numbered from 0.
        extras : mapping of str to Tensor
            The coordinator's extras, sent with the version.
        """
        return self.model.loss(p, batch)

    def extra_samples(self, node: int, positives: I32, extras: Extras) -> Columns:
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

    def transform_samples(self, drawn: Columns, client: ClientContext, draw: np.random.Generator) -> Columns:
        """Return the samples that a client learns from, given the samples of its feed, with the same columns.

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

    def user_upload_width(self, layout: Layout) -> int:
        """Return the number of values about its user that a client uploads with an update, 0 if it uploads none."""
        return 0

    def user_uploads(self, clients: Sequence[ClientContext]) -> F32:
        """Return the vectors that some clients upload about their users, by default their rows.

        Parameters
        ----------
        clients : sequence of ClientContext
            Clients with one version and the same extras. The vector of one must not depend on the others.

        Returns
        -------
        ndarray of float32, shape (n, user_upload_width)
        """
        return np.stack([client.own for client in clients])

    @property
    def user_upload_epsilon(self) -> float | None:
        """Privacy budget that each upload about a user spends, or None if it is not known."""
        return None

    def personal_models(self, clients: I64, version: F32, extras: Extras) -> PersonalModels | None:
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

    def client_extras(self, node: int, extras: Extras) -> Columns:
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

    def initial_contribution(self, split: TrainingData, seed: int) -> Any:
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
        self, split: TrainingData, contribution: Any, hook: CoordinatorHook | None, own: F32
    ) -> dict[str, Any]:
        """Return sections for the run's summary, computed with the ground truth.

        Parameters
        ----------
        split : TrainingData
        contribution : object or None
            The value that :meth:`initial_contribution` returned.
        hook : CoordinatorHook or None
            The coordinator's part at the end of the run.
        own : ndarray of float32, shape (n_users, user_width)
            The rows that clients keep for their users.
        """
        return {}

    def coordinator_hook(self, known: CoordinatorContext) -> CoordinatorHook | None:
        """Return the coordinator's part between slices, or None."""
        return None


def overrides_method(recommender: Recommender, method: str) -> bool:
    """Return whether a recommender overrides a method that has a default."""
    return getattr(type(recommender), method) is not getattr(Recommender, method)


def overrides_term(recommender: Recommender) -> bool:
    """Return whether a recommender's analytic term belongs to its own loss; False for a subclass with another loss."""
    return defined_by_same_class(recommender, "analytic_term", "loss", "draws")


_GRADIENTS: dict[type[Feed], tuple[str, Callable[[Model], bool]]] = {
    PointwiseFeed: ("analytic_gradient", has_own_gradient),
    PairwiseFeed: ("pair_gradient", has_own_pair_gradient),
    SequenceFeed: ("sequence_gradient", has_own_sequence_gradient),
}
"""The method by which a model declares its gradient for the samples of a feed, and the check that it is its own."""


def client_gradient(model: Model) -> AnalyticGradient | PairGradient | SequenceGradient | None:
    """Return the gradient that a model declares for the samples of its feed, or None; it may import compilers."""
    if model.feed not in _GRADIENTS:
        return None
    method, is_own = _GRADIENTS[model.feed]
    gradient: AnalyticGradient | PairGradient | SequenceGradient | None = getattr(model, method)()
    return gradient if gradient is not None and is_own(model) else None


def missing_analytic_gradient(model: Model, recommender: Recommender | None) -> str | None:
    """Return the part of the training that has no analytic gradient, or None."""
    gradient = client_gradient(model)
    if gradient is None:
        return registry_name(model)
    if recommender is None:
        return None
    if not isinstance(
        gradient, AnalyticGradient
    ):  # samples are drawn ahead, so that recommenders may change them
        return None if leaves_loss_unchanged(recommender) else _losses_of(recommender)
    has_term = overrides_term(recommender) and recommender.analytic_term(gradient) is not None
    if not (has_term or leaves_loss_unchanged(recommender)):
        return _losses_of(recommender)
    if overrides_method(recommender, "transform_samples"):
        return f"the samples that recommender {registry_name(recommender)} changes"
    return None


def leaves_loss_unchanged(recommender: Recommender) -> bool:
    """Return whether a recommender leaves the loss unchanged; False for a subclass that changes the loss."""
    return not recommender.adds_to_loss and defined_by_same_class(
        recommender, "adds_to_loss", "loss", "draws"
    )


def _losses_of(recommender: Recommender) -> str:
    return f"the losses that recommender {registry_name(recommender)} adds, with these options"


forward(__name__)
