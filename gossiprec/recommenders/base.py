"""What the emulator needs to know of a recommender: what clients add to their loss, and what the coordinator does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gossiprec.arrays import F32, F64, I32, I64
from gossiprec.data.split import Split
from gossiprec.errors import ScenarioError
from gossiprec.eventlog.live import Stateful
from gossiprec.feeds import PointwiseFeed
from gossiprec.feeds.base import Columns
from gossiprec.models.base import Layout, Model, Role
from gossiprec.models.base.analytic import AnalyticGradient, written_with
from gossiprec.options import NoOptions, Options
from gossiprec.rng import generator
from gossiprec.servers.base import Answers, Downlink, Extras, Round, Server

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Known:
    """What the coordinator knows before the first round.

    Attributes
    ----------
    model : Model
    layout : Layout
    popularity : ndarray of int64, shape (n_items,)
        Training interactions of each item, over all users: the papers count it as public.
    wakes_per_epoch : int
        Slices of a global epoch.
    seed : int
    n_clients : int
    contribution : object or None
        What :meth:`Recommender.contributed` gave.
    """

    model: Model
    layout: Layout
    popularity: I64
    wakes_per_epoch: int
    seed: int
    n_clients: int
    contribution: Any


class Between(Stateful, ABC):
    """What the coordinator does between aggregating and pushing; what it remembers is named in :attr:`changing`."""

    extra_bytes: int = 0
    """Size of what a client is sent beside the version."""
    own_extras: frozenset[str] = frozenset()
    """Names of extras, shape (n_clients, ...), of which each client is sent its row; all of the others."""
    one_of: frozenset[str] = frozenset()
    """Names of extras of which each client is sent one row, whichever its own say."""
    stands_for: frozenset[str] = frozenset()
    """Names of extras that nobody is sent: with them a client works out what the coordinator would answer it."""
    answer_bytes: int = 0
    """Size of such an answer, a part of :attr:`extra_bytes`."""

    @property
    def groups(self) -> I64 | None:
        """Which group of alike clients each is in, -1: not known; shape (n_clients,). None: none are made."""
        return None

    def start(self, version: F32, users: F32) -> tuple[F32, F32]:
        """Return with which version, and with which rows of their users, everybody begins.

        Parameters
        ----------
        version : ndarray of float32, shape (n_columns,)
        users : ndarray of float32, shape (n_clients, user_width)
            As the model draws them.
        """
        return version, users

    @abstractmethod
    def step(self, version: F32, answers: Answers, round: Round) -> tuple[F32, Extras]:
        """Return the version that is pushed, and the extras beside it.

        Parameters
        ----------
        version : ndarray of float32, shape (n_columns,)
            As aggregated, ``[items | shared]``. Not to be changed.
        answers : Answers
            What it was aggregated from.
        round : Round
        """


class Personal(NamedTuple):
    """What clients recommend by, where that is not the version that they were sent.

    Attributes
    ----------
    versions : ndarray of float32, shape (n, n_columns)
        For a client that has not trained the present version.
    of : ndarray of int64, shape (n_clients,)
        Which of them each takes.
    local : float
        How much of its own change a client adds that has.
    """

    versions: F32
    of: I64
    local: float


@dataclass(frozen=True, eq=False)
class AtHand:
    """What a client has at hand for one local update; none of it is to be changed.

    Attributes
    ----------
    seed, node, update : int
        Of the run, whose it is, and its number among the node's.
    layout : Layout
        Of whole models.
    positives : ndarray of int32, shape (n_positives,)
        Its training items, ascending.
    history : ndarray of int32, shape (n,)
        Those that its user's state follows from, in the order of time (:meth:`gossiprec.feeds.base.Feed.history`).
    own : ndarray of float32, shape (user_width,)
        The row of its user, as it is now.
    version : ndarray of float32, shape (n_columns,)
        ``[items | shared]``, as it was sent.
    extras : mapping of str to ndarray
        What was sent beside it; of those for single clients it may look at its row.
    told : ndarray of float32, shape (told_width,), or None
        What it has told of its user; None: nothing yet.
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
    told: F32 | None = None

    def draw(self, purpose: str) -> np.random.Generator:
        """Return draws that depend on seed, purpose, node and update alone."""
        return generator(self.seed, purpose, self.node, self.update)


class ClientStep(NamedTuple):
    """A step of a client's training, for compiled terms: as kernels of gradients have it, and what else there is.

    Attributes
    ----------
    core, items, slopes, item_slopes, samples, positives, shape, room
        Of :attr:`gossiprec.models.base.analytic.AnalyticGradient.fill`.
    places : ndarray of int32, shape (n_samples,)
        The column of each sample's item; a positive, its negatives, the next positive.
    numbers : ndarray of float64
    extra, of_step, of_samples : ndarray
        Those of :class:`AnalyticTerm`; a zero where it names none.
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
    """What a recommender adds to a model's gradient, written out and compiled.

    Attributes
    ----------
    add : kernel
        ``add(client)``, compiled by :mod:`gossiprec.numerics.jit`, adds to the slopes of a :class:`ClientStep`.
    numbers : ndarray of float64
        What the kernel is told of the options.
    extra : str or None
        Name of what the coordinator sends beside the version, float32, shape (n, d).
    of_step, of_samples : str or None
        Names of what :meth:`Recommender.draws` gives: the first as it is, of the second the rows of positives. It is
        then asked with samples of which the number alone is known.
    """

    add: Any
    numbers: F64
    extra: str | None = None
    of_step: str | None = None
    of_samples: str | None = None


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
    """

    Options: ClassVar[type[Options]] = NoOptions

    adds_to_loss: ClassVar[bool] = True
    """Whether :meth:`loss` is more than the model's; if not, clients train by what is written out for the model."""

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
        names = {block.name for role in (Role.USER, Role.ITEM) for block in layout.of(role)}
        if names != {"users", "items"} or self.model.feed is not PointwiseFeed:
            raise ScenarioError(
                f"recommender: {name} contrasts one row of each user and each item of models that learn from positives "
                f"and negatives, which {of_model} is not; take gmf, mf with cross-entropy, or ncf"
            )
        if not full_batches:
            raise ScenarioError(
                f"recommender: {name} contrasts all of a client's items in one batch; set training.batch_size to full"
            )

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

    def changed_samples(self, drawn: Columns, client: AtHand, draw: np.random.Generator) -> Columns:
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

    def told_width(self, layout: Layout) -> int:
        """Return how many numbers a client tells of its user beside an update, for the coordinator to see; 0: none."""
        return 0

    def told_rows(self, clients: Sequence[AtHand]) -> F32:
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

    def personal(self, clients: I64, version: F32, extras: Extras) -> Personal | None:
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

    def contributed(self, split: Split, seed: int) -> Any:
        """Return what clients tell the coordinator before the first round; None: nothing.

        This is on the clients' side: the coordinator sees what is returned, and nothing else of the split.

        Parameters
        ----------
        split : Split
            Each client's data; poisoners have none.
        seed : int
        """
        return None

    def report(self, split: Split, contribution: Any, between: Between | None, own: F32) -> dict[str, Any]:
        """Return sections for the run's summary, with the truth at hand.

        Parameters
        ----------
        split : Split
        contribution : object or None
            What :meth:`contributed` gave.
        between : Between or None
            The coordinator's part as it is at the end.
        own : ndarray of float32, shape (n_users, user_width)
            The rows that clients keep of their users.
        """
        return {}

    def between(self, known: Known) -> Between | None:
        """Return what the coordinator does between slices; None: nothing."""
        return None


def has_own(recommender: Recommender, method: str) -> bool:
    """Whether a recommender has a method of its own where others have the default."""
    return getattr(type(recommender), method) is not getattr(Recommender, method)


def has_own_term(recommender: Recommender) -> bool:
    """Whether a recommender's term is that of its loss, and not inherited by a subclass with another loss."""
    return written_with(recommender, "analytic_term", "loss", "draws")


class Coordinator(Server):
    """A recommender's coordinator, after the server that the protocol names, if any.

    Parameters
    ----------
    server : Server or None
    between : Between
    """

    def __init__(self, server: Server | None, between: Between) -> None:
        super().__init__(None)
        self._server, self._between = server, between
        self.n_versions = 1
        self.extra_bytes = between.extra_bytes + (0 if server is None else server.extra_bytes)

    @property
    def groups(self) -> I64 | None:
        """Those of the recommender."""
        return self._between.groups

    def round(self, published: F32, aggregated: F32, answers: Answers, round: Round) -> Downlink:
        """Let the server do its part, and then the recommender."""
        downlink, between = Downlink(aggregated[None]), self._between
        if self._server is not None:
            downlink = self._server.round(published, aggregated, answers, round)
        version, extras = between.step(downlink.versions[0], answers, round)
        apart = between.own_extras | between.one_of | between.stands_for
        return Downlink(
            version[None],
            extras={**downlink.extras, **{name: extras[name] for name in extras if name not in apart}},
            own={**downlink.own, **{name: extras[name] for name in between.own_extras}},
            one_of={**downlink.one_of, **{name: extras[name] for name in between.one_of}},
            stands_for={name: extras[name] for name in between.stands_for},
            answer_bytes=between.answer_bytes,
        )

    def state(self) -> dict[str, Any]:
        """Return what both remember."""
        server = {} if self._server is None else self._server.state()
        return {"server": server, "between": self._between.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        if self._server is not None:
            self._server.restore(state["server"])
        self._between.restore(state["between"])
