"""Federated recommenders: additions to the clients' training, their uploads, and the coordinator's part.

A recommender sees each client as a :class:`ClientContext`. A loss that it adds has a formula in torch and may
have an analytic gradient, :class:`AnalyticTerm`; :func:`missing_gradient` says whether clients can use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions, Options
from gossiprec.base.registry import Registry, registry_name
from gossiprec.base.rng import generator
from gossiprec.data.training_data import TrainingData
from gossiprec.models.base import BlockRole, Layout, Model
from gossiprec.models.base.kernel_interface import (
    CompiledGradient,
    defined_by_same_class,
    has_own_gradient,
)
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.feeds import ListFeed, PairwiseFeed, PointwiseFeed, SequenceFeed
from gossiprec.models.feeds.base import Columns
from gossiprec.rules.servers import (
    CALLING_THREAD,
    ClientAnswers,
    Downlink,
    Extras,
    RoundContext,
    Server,
    ThreadPoolLike,
)
from gossiprec.runs.checkpoint_state import Stateful

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class CoordinatorContext:
    """The coordinator's knowledge before the first round.

    Attributes
    ----------
    model : Model
    layout : Layout
    popularity : ndarray of int64, shape (n_items,)
        Training interactions of each item, over all users: the papers count it as public.
    wakes_per_epoch : int
        Wakes of the coordinator per global epoch: one per slice, and the closing wake, if there is one.
    seed : int
    n_clients : int
    contribution : object or None
        The value that :meth:`Recommender.initial_contribution` returned.
    make_server : callable
        Function that returns another server like the protocol's, or None if it has none.
    closes_epochs : bool
        Whether an epoch ends with an extra wake (``protocol.close_epochs``), at which no client is sent a version.
    """

    model: Model
    layout: Layout
    popularity: I64
    wakes_per_epoch: int
    seed: int
    n_clients: int
    contribution: Any
    make_server: Callable[[], Server | None] = lambda: None
    closes_epochs: bool = False

    def epoch_begun_at(self, round: RoundContext) -> int | None:
        """Return the epoch, from 0, that begins with a round, or None."""
        epoch, place = divmod(round.number, self.wakes_per_epoch)
        return epoch if place == 0 else None

    def epochs_ended_at(self, round: RoundContext) -> int:
        """Return the number of epochs that are over at a round, if one has ended since the round before; else 0."""
        epochs, wakes = divmod(round.number + self.closes_epochs, self.wakes_per_epoch)
        return epochs if wakes == 0 else 0


class CoordinatorHook(Stateful, ABC):
    """The coordinator's work between aggregating and sending; :attr:`checkpointed` names its state."""

    extra_bytes: int = 0
    """Bytes that a client is sent in addition to the version."""
    own_extras: frozenset[str] = frozenset()
    """Names of extras, shape (n_clients, ...), of which each client is sent its row; other extras are sent whole."""
    one_of: frozenset[str] = frozenset()
    """Names of extras of which each client is sent one row, selected by its own extras."""
    stands_for: frozenset[str] = frozenset()
    """Names of extras that are not sent: with them a client computes the coordinator's answer itself."""
    answer_bytes: int = 0
    """Size of such an answer, a part of :attr:`extra_bytes`."""

    @property
    def groups(self) -> I64 | None:
        """The group of similar clients of each, -1 if unknown, shape (n_clients,); None if there are no groups."""
        return None

    @property
    def knowledge(self) -> Any:
        """Further knowledge for an attack on uploads, such as contributed data, or None.

        It must not contain the ground truth: the attack can reach all of it.
        """
        return None

    def start(self, version: F32, users: F32) -> tuple[F32, F32]:
        """Return the version, and the rows of their users, with which all clients begin.

        Parameters
        ----------
        version : ndarray of float32, shape (n_columns,)
        users : ndarray of float32, shape (n_clients, user_width)
            As the model draws them.
        """
        return version, users

    @abstractmethod
    def step(self, version: F32, answers: ClientAnswers, round: RoundContext) -> tuple[F32, Extras]:
        """Return the version to send, and its extras.

        Parameters
        ----------
        version : ndarray of float32, shape (n_columns,)
            As aggregated, ``[items | shared]``. It must not be changed.
        answers : ClientAnswers
            The answers that it was aggregated from.
        round : RoundContext
        """


class RecommenderServer(Server):
    """A recommender's coordinator, after the server that the protocol names, if any.

    Parameters
    ----------
    server : Server or None
    hook : CoordinatorHook
    """

    def __init__(self, server: Server | None, hook: CoordinatorHook) -> None:
        super().__init__(None)
        self._server, self._hook = server, hook
        self.n_versions = 1
        self.extra_bytes = hook.extra_bytes + (0 if server is None else server.extra_bytes)

    @property
    def parts(self) -> tuple[object, ...]:
        """The server and the recommender's part."""
        return (self._server, self._hook)

    @property
    def groups(self) -> I64 | None:
        """The groups of the recommender's part."""
        return self._hook.groups

    def round(self, published: F32, aggregated: F32, answers: ClientAnswers, round: RoundContext) -> Downlink:
        """Run the server's part, and then the recommender's."""
        downlink, hook = Downlink(aggregated[None]), self._hook
        if self._server is not None:
            downlink = self._server.round(published, aggregated, answers, round)
        version, extras = hook.step(downlink.versions[0], answers, round)
        separate = hook.own_extras | hook.one_of | hook.stands_for
        return Downlink(
            version[None],
            extras={**downlink.extras, **{name: extras[name] for name in extras if name not in separate}},
            own={**downlink.own, **{name: extras[name] for name in hook.own_extras}},
            one_of={**downlink.one_of, **{name: extras[name] for name in hook.one_of}},
            stands_for={name: extras[name] for name in hook.stands_for},
            answer_bytes=hook.answer_bytes,
        )

    def state(self) -> dict[str, Any]:
        """Return the state of both parts."""
        server = {} if self._server is None else self._server.state()
        return {"server": server, "between": self._hook.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        if self._server is not None:
            self._server.restore(state["server"])
        self._hook.restore(state["between"])


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
    core, items, slopes, item_slopes, shape, room
        Of :attr:`gossiprec.models.base.kernel_interface.CompiledGradient.fill`.
    samples, positives
        Of :class:`gossiprec.models.base.kernel_interface.LabelledBatch`.
    places : ndarray of int32, shape (n_samples,)
        The column of the item of each of the client's samples; a positive, its negatives, the next positive.
    numbers : ndarray of float64
    extra, of_step, of_samples : ndarray
        The arrays named in :class:`AnalyticTerm`; a zero for each that it does not name.
    node : int
        The client's row in extras for single clients.
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
    node: Any


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
        Name of the array that the coordinator sends with the version, float32, shape (n, ...); read as (n, d).
    of_step, of_samples : str or None
        Names of arrays from :meth:`Recommender.draws`: the first is used whole, of the second the rows of positives.
        The samples passed to it are then placeholders, of which only the number is known.
    """

    add: Any
    numbers: F64
    extra: str | None = None
    of_step: str | None = None
    of_samples: str | None = None


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
        names = {
            block.name for role in (BlockRole.USER, BlockRole.ITEM) for block in layout.blocks_of_role(role)
        }
        if names != {"users", "items"} or self.model.feed is not PointwiseFeed:
            raise ScenarioError(
                f"recommender: {name} requires a model with one row per user and item that learns from "
                f"positives and negatives, which {of_model} is not; choose gmf, mf with cross-entropy, or ncf"
            )
        if not full_batches:
            raise ScenarioError(
                f"recommender: {name} contrasts all of a client's items in one batch; set training.batch_size to full"
            )

    @classmethod
    def coordinator_bytes(cls, layout: Layout, n_clients: int) -> int:
        """Return the bytes that the coordinator's part holds at most, if they grow with clients times items: none."""
        return 0

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

    def analytic_term(self, gradient: CompiledGradient) -> AnalyticTerm | None:
        """Return the analytic gradient of the terms that :meth:`loss` adds, or None to use autograd, which is slower.

        Parameters
        ----------
        gradient : CompiledGradient
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

    def coordinator_hook(self, context: CoordinatorContext) -> CoordinatorHook | None:
        """Return the coordinator's part between slices, or None."""
        return None


def overrides_method(recommender: Recommender, method: str) -> bool:
    """Return whether a recommender overrides a method that has a default."""
    return getattr(type(recommender), method) is not getattr(Recommender, method)


_FEEDS = (PointwiseFeed, PairwiseFeed, ListFeed, SequenceFeed)
"""The feeds with compiled training of clients."""


def client_gradient(model: Model) -> CompiledGradient | None:
    """Return the gradient by which clients can train, or None; it may import compilers.

    Clients hold some rows of the item table only, so a loss that uses all items has none.
    """
    if model.feed not in _FEEDS or not has_own_gradient(model) or getattr(model, "needs_all_items", False):
        return None
    return model.gradient()


def missing_gradient(model: Model, recommender: Recommender | None) -> str | None:
    """Return the part of the training of clients that has no compiled gradient, or None."""
    gradient = client_gradient(model)
    if gradient is None:
        return registry_name(model)
    if recommender is None:
        return None
    if model.feed is not PointwiseFeed:  # samples are drawn ahead, so that recommenders may change them
        return None if leaves_loss_unchanged(recommender) else _losses_of(recommender)
    own_term = defined_by_same_class(
        recommender, "analytic_term", "loss", "draws"
    )  # else it is of another loss
    has_term = own_term and recommender.analytic_term(gradient) is not None
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


RECOMMENDERS: Registry[type[Recommender]] = Registry("recommender", __name__, group="recommenders")
