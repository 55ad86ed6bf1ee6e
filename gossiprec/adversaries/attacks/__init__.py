"""Passive attacks, one file each. They see observations only, never nodes, other nodes' data or the ground truth."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from gossiprec.adversaries.attacks.attributes import AttributeScores, KnownAttribute
from gossiprec.adversaries.attacks.candidates import NonMembers
from gossiprec.adversaries.attacks.findings import Finding, Label, TableKey
from gossiprec.adversaries.attacks.observations import KnownDeliveries, Observations
from gossiprec.base.arrays import F32, F64, I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.machine import ThreadPool
from gossiprec.base.options import Options
from gossiprec.base.ragged import Ragged
from gossiprec.base.registry import Registry, registry_name
from gossiprec.measures.selectors import INTERVALS, ROC, USER_MEASURES
from gossiprec.models.base import Model
from gossiprec.models.base.kernel_interface import BoundKernel, ModelKernels, ScoreQuery
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.feeds.base import Feed

ITEM_MEASURES = (
    "item_auc",
    "item_average_precision",
    "item_precision",
    "item_tpr_at_1",
    "item_tpr_at_0.1",
    "item_members",
)
"""Measures of :class:`ItemScores`, computed by joining them with the ground truth."""
CANDIDATE_MEASURES = (
    *(*ITEM_MEASURES, "item_advantage", "item_auc_popularity"),
    *(ROC, *USER_MEASURES, *INTERVALS),
)
"""Measures of :class:`ItemScores` of candidates."""


RECONSTRUCTION_MEASURES = (
    "reconstruction_precision",
    "reconstruction_recall",
    "reconstruction_f1",
    "reconstruction_exact",
    "reconstruction_popularity_precision",
    "reconstruction_popularity_recall",
    "reconstruction_popularity_f1",
    "reconstruction_heard",
)
"""Measures of :class:`ItemSets`, computed by joining them with the ground truth."""


MOVE_MEASURES = (
    "moves_precision",
    "moves_recall",
    "moves_f1",
    "moves_popularity_precision",
    "moves_popularity_recall",
    "moves_popularity_f1",
    "moves_order",
    "moves_heard",
)
"""Measures of :class:`ItemSets` that are moves."""


@dataclass(frozen=True)
class ItemSets:
    """The items that an attack believes each of some victims to have, or the moves between items.

    Attributes
    ----------
    victims : ndarray of int64, shape (n,)
    offsets : ndarray of int64, shape (n + 1,)
    items : ndarray of int32
        Victim k has ``items[offsets[k]:offsets[k + 1]]``.
    labels : mapping of str to str, int, float or bool
        Labels of the results, such as observer.
    previous : ndarray of int32, optional
        For moves: the item before each of `items`.
    """

    judge: ClassVar[str] = "item-sets"
    victims: I64
    offsets: I64
    items: I32
    labels: Mapping[str, Label] = field(default_factory=dict)
    previous: I32 | None = None


@dataclass(frozen=True)
class ItemScores:
    """Scores of pairs of a victim and an item, which no threshold has made guesses of.

    Attributes
    ----------
    victims : ndarray of int64, shape (n_pairs,)
        Users, none of which is a node of the attack.
    items : ndarray of int32, shape (n_pairs,)
    scores : ndarray of float32 or float64, shape (n_pairs,)
        The higher, the likelier the victim has trained on the item. Equal scores are ties, which give no advantage.
    labels : mapping of str to str, int, float or bool
        Labels of the results, such as observer and momentum.
    k : int
        Length of each victim's list of likeliest items, of which the precision is measured.
    adversaries : ndarray of int64, shape (n_pairs,), optional
        The node that scores each pair, if nodes of the attack score on their own. A pair may then occur once for each,
        and a node of the attack may be the victim of another.
    are_candidates : bool
        Whether the pairs are drawn candidates (:attr:`AttackContext.candidates`). The ROC curve, intervals over
        victims, the AUC of each victim and that of popularity are then reported too.
    """

    judge: ClassVar[str] = "item-scores"
    victims: I64
    items: I32
    scores: F32 | F64
    labels: Mapping[str, Label] = field(default_factory=dict)
    k: int = 10
    adversaries: I64 | None = None
    are_candidates: bool = False

    def of_victims(self, users: I64) -> ItemScores:
        """Return the scores of some victims."""
        own = np.isin(self.victims, users)
        adversaries = None if self.adversaries is None else self.adversaries[own]
        pairs = (self.victims[own], self.items[own], self.scores[own])
        return ItemScores(*pairs, self.labels, self.k, adversaries, self.are_candidates)


def _no_nodes() -> I64:
    return np.zeros(0, np.int64)


def _no_attributes(name: str, bins: tuple[float, ...], share: float) -> KnownAttribute:
    raise ScenarioError(
        f"observers: attribute {name}: found no attributes of users; expected an attack with needs_features"
    )


class ModelScorer(Protocol):
    """A scorer and trainer of given rows and data (:class:`gossiprec.compute.scorer.Scorer`)."""

    model: Model
    layout: Layout
    training: Any
    storage: str

    @property
    def kernels(self) -> ModelKernels | None:
        """The model's compiled form, if the run uses it."""

    @property
    def is_plain(self) -> bool:
        """Whether the run is too small for compiled code."""

    def score(self, query: ScoreQuery) -> F32:
        """Return predicted scores."""

    def train_like_node(
        self, feed: Feed, start: F32, *, updates: int, seed: int, as_uploaded: bool = False
    ) -> F32:
        """Return a model after local updates as a node runs them."""

    def imitate_nodes(self, feed: Feed, layout: Layout, nodes: I64, rows: F32, seed: int) -> Any:
        """Return nodes that train as the run's nodes do (:class:`gossiprec.compute.scorer.ImitatedNodes`)."""


@dataclass(frozen=True)
class AttackContext:
    """What an attack knows when it is prepared: how models work, and the data of its own nodes.

    Attributes
    ----------
    scorer : ModelScorer
        Scores rows and trains the attack's own models; holds no user's data.
    n_users : int
        Nodes 0 .. n_users - 1 hold a user; they are the possible victims.
    coordinator : int or None
    seed : int
    threads : ThreadPool
        For compiled kernels.
    hides_user : ndarray of bool, shape (n_nodes,)
        Nodes that send no user row with their messages, which every receiver can see.
    deliveries : KnownDeliveries
        Deliveries that are known before the run, of all nodes. They may be used to place colluders, and for nothing
        else; :meth:`Attack.allocate` passes an attack the deliveries to its own nodes.
    feed_of_nodes : callable
        Node ids -> the feed with the data of these nodes only. They must be the attack's own nodes, or users if the
        coordinator or a head observes: its accomplices, each of which uses its own data. The run refuses other ids.
    models_of_nodes : callable
        Node ids -> copies of the present models of these nodes, shape (n, row_size). Ids are refused as by
        `feed_of_nodes`. For :meth:`Attack.rankings` only.
    has_inbox : ndarray of bool, shape (n_nodes,), or None
        Nodes that read deliveries when they next wake, not on arrival; None if there are no such nodes.
    knowledge : object or None
        For attacks on uploads: the coordinator's knowledge in addition to versions and updates
        (:attr:`gossiprec.federated.CoordinatorHook.knowledge`). None for all other attacks.
    nodes : ndarray of int64
        For active adversaries: the nodes that the scenario gives them, ascending. Empty for all other attacks.
    heads : ndarray of int64
        Nodes without a user of a protocol without a coordinator, such as the heads of clusters.
    without_data : ndarray of int64
        Users without data (``dataset.without``), ascending. They have no items to search for.
    known_attribute : callable
        Column, borders of its classes if it has numbers, share of users -> the classes of this share of the users, the
        same for every attack of the run.
    own_names : callable or None
        If nodes send by virtual nodes, and the attack sees one of those of each node: own nodes -> the names under
        which it sees these; victims have names in place of ids. None if senders are known.
    neighbors : callable
        () -> the nodes that each node can send to in the graph of the network, which is public; None if no graph stays
        the same.
    candidates : callable or None
        Number of pairs and kind of others -> the candidates of every user
        (:func:`gossiprec.adversaries.attacks.candidates.draw_candidates`), which do not tell which are training items.
    """

    scorer: ModelScorer
    n_users: int
    coordinator: int | None
    seed: int
    threads: ThreadPool
    hides_user: Bools
    deliveries: KnownDeliveries
    feed_of_nodes: Callable[[I64], Feed]
    models_of_nodes: Callable[[I64], F32]
    has_inbox: Bools | None = None
    knowledge: Any = None
    nodes: I64 = field(default_factory=_no_nodes)
    heads: I64 = field(default_factory=_no_nodes)
    without_data: I64 = field(default_factory=_no_nodes)
    known_attribute: Callable[[str, tuple[float, ...], float], KnownAttribute] = _no_attributes
    candidates: Callable[[int, NonMembers], Ragged] | None = None
    own_names: Callable[[I64], I64] | None = None
    neighbors: Callable[[], Sequence[Sequence[int]] | None] = lambda: None

    def contacts(self, until: float = math.inf) -> Any:
        """Return the number of deliveries between each pair of users, counting those known before the run.

        Parameters
        ----------
        until : float
            Deliveries later than this virtual time are left out.

        Returns
        -------
        scipy.sparse.csr_array of int64, shape (n_users, n_users)
            Entry (u, v): deliveries from u to v.
        """
        from scipy import sparse  # imported here, because most runs do not need it

        met, n = self.deliveries, self.n_users
        known = (met.time <= until) & (met.sender < n) & (met.receiver < n)
        ends = (met.sender[known], met.receiver[known])
        return sparse.csr_array((np.ones(len(ends[0]), np.int64), ends), shape=(n, n))

    def check_probabilities(self, name: str) -> None:
        """Refuse an attack that needs probabilities of items if the model gives none.

        Raises
        ------
        ScenarioError
        """
        if not self.scorer.model.predicts_probabilities:
            raise ScenarioError(
                f"observers: {name} requires predicted probabilities, but {registry_name(self.scorer.model)} "
                "predicts none; use name: cda, or a model that predicts them, such as gmf"
            )

    def check_plain_samples(self, name: str) -> None:
        """Refuse an attack that trains models on sets of items if the model learns from more than items.

        Raises
        ------
        ScenarioError
        """
        if self.scorer.model.feed.context_columns:
            raise ScenarioError(
                f"observers: {name} trains models on sets of items, but {registry_name(self.scorer.model)} learns from "
                f"{', '.join(self.scorer.model.feed.context_columns)} too; use name: cda, or another model"
            )


@dataclass(frozen=True)
class AttackMemoryInputs:
    """The sizes and options that decide an attack's memory, for estimates before a run is prepared.

    Attributes
    ----------
    n_users : int
    layout : Layout
    storage : str
        The type in which the run stores rows.
    own_items : float
        Training items of a user, on average.
    keeps : float
        Largest share of the users of which a single adversary keeps rows at the same time: users that it has heard
        from and will hear from again.
    ranked_on_sight : bool
        Whether pools score models on arrival, and keep none unless momentum is used.
    """

    n_users: int
    layout: Layout
    storage: str
    own_items: float
    keeps: float
    ranked_on_sight: bool

    def count_nodes(self, nodes: Any) -> int:
        """Return the number of users given by "all", by ids, or by an object with a `fraction`."""
        if nodes == "all":
            return self.n_users
        if hasattr(nodes, "fraction"):
            return fraction_to_count(self.n_users, nodes.fraction)
        return len(set(nodes))


def fraction_to_count(n_users: int, fraction: float) -> int:
    """Return the number of users in a fraction of `n_users`, at least one."""
    return max(1, round(fraction * n_users))


@dataclass(frozen=True)
class Ranking:
    """The adversaries' scores of the victims at one moment.

    Attributes
    ----------
    observer, relevance : str
    momentum : float
    community_sizes : tuple of int
    adversaries : ndarray of int64, shape (n_adversaries,)
        Node ids.
    scores : ndarray of float32, shape (n_adversaries, n_users)
        Relevance of each victim for each adversary's target items; NaN if the adversary has received nothing from it.
    views : tuple of ndarray of float32
        If victims send by virtual nodes, the scores of their other virtual nodes; the run adds them.
    """

    observer: str
    relevance: str
    momentum: float
    community_sizes: tuple[int, ...]
    adversaries: I64
    scores: F32
    views: tuple[F32, ...] = ()


def _no_entropies(adversary: int) -> F32:
    return np.zeros((0, 0), np.float32)


@dataclass(frozen=True)
class MembershipGuesses:
    """The items that a pool takes for training items of the victims it has received models from, at one moment.

    Attributes
    ----------
    observer : str
    momentum : float
    thresholds : tuple of float
        An item is taken for a member by each threshold that its entropy is below. Any number will do that is the lower,
        the likelier the victim has trained on the item.
    adversaries : ndarray of int64, shape (n_adversaries,)
        Nodes that make guesses, users or the coordinator.
    offsets, items : ndarray
        Adversary a makes guesses about ``items[offsets[a]:offsets[a + 1]]``.
    victims : ndarray of int64, shape (n_victims,)
        Victims that share their user row: all adversaries make the same guesses about them.
    entropies : ndarray of float32, shape (n_victims, n_items)
        Their entropies of all items.
    hidden : ndarray of int64, shape (n_hidden,)
        Victims that hide their user row.
    hidden_entropies : callable
        Adversary's index -> entropies of its items by the hidden victims' models, shape (n_hidden, n_asked).
    """

    judge: ClassVar[str] = "membership-guesses"
    observer: str
    momentum: float
    thresholds: tuple[float, ...]
    adversaries: I64
    offsets: I64
    items: I32
    victims: I64
    entropies: F32
    hidden: I64 = field(default_factory=_no_nodes)
    hidden_entropies: Callable[[int], F32] = _no_entropies


class UploadGuesses:
    """Guesses from what clients upload other than updates.

    Attributes
    ----------
    section : str
        The section of the summary that gets the figures, under the key ``leaks``.
    """

    judge: ClassVar[str] = "upload-leakage"
    section: ClassVar[str]


class Attack(ABC):
    """An attack on one run; one object serves all combinations of its listed options.

    Parameters
    ----------
    options : Options
        Of the class's own type.
    context : AttackContext
    """

    Options: ClassVar[type[Options]]
    measures: tuple[str, ...] = ()
    """Names of the measures of its guesses and findings, from which a study can choose before the run.

    Options may leave some out, so an object may have fewer names than its class."""
    uses_torch: ClassVar[bool] = False
    """Whether it computes with torch, which rounds differently per processor (``executor.portable`` refuses it)."""

    ranks_names: ClassVar[bool] = False
    """Whether it only ranks victims, so that these may have names in place of ids (``chunks`` with virtual nodes)."""
    needs_features: ClassVar[bool] = False
    """Whether it reads attributes of users (:attr:`AttackContext.known_attribute`)."""

    sends: ClassVar[bool] = False
    """Whether it decides what its nodes send (:class:`~gossiprec.adversaries.attacks.adversary.Adversary`)."""

    def __init__(self, options: Any, context: AttackContext) -> None:
        self.options = options
        self.context = context

    @classmethod
    def table_keys(cls, options: Any) -> frozenset[TableKey] | None:
        """Return the keys of its rows in a run's tables, or None if they are known only during the run."""
        return None

    @classmethod
    def expected_bytes(cls, options: Any, prospect: AttackMemoryInputs) -> float:
        """Return an estimate of :attr:`state_bytes` before the run is prepared."""
        return 0.0

    @property
    def label(self) -> str:
        """The label of its time measurements: the attack and its observer, as in ``cda-coordinator``."""
        return type(self).__name__

    @property
    def nodes(self) -> I64:
        """Nodes that observe individually: they see the models that they are about to merge."""
        return np.zeros(0, np.int64)

    @property
    def needs_merge_weights(self) -> bool:
        """Whether :attr:`Observations.keeps` must also be available for merges by performance, which takes time."""
        return False

    @property
    def pools(self) -> Sequence[I64]:
        """Groups of nodes that share their deliveries. They see them in the order of delivery, each copy once."""
        return ()

    @property
    def coalitions(self) -> Mapping[str, I64]:
        """Members of the groups of users that share their deliveries, by observer."""
        return {}

    def allocate(self, deliveries: KnownDeliveries) -> None:  # noqa: B027 (many keep nothing)
        """Allocate memory for the deliveries to the attack's own nodes; called before the first observation."""

    def extend_deliveries(self, deliveries: KnownDeliveries) -> None:  # noqa: B027
        """Note the next deliveries to be observed, if :meth:`allocate` did not receive all of them."""

    def warm_up(self) -> None:  # noqa: B027
        """Compile the loops by running them on empty input. Called before :meth:`allocate`."""

    def bind(self, seen: Observations, places: I64) -> BoundKernel | None:
        """Return a compiled loop that does all of :meth:`observe` for a plan, and its arguments, or None.

        Parameters
        ----------
        seen : Observations
            All deliveries to the attack's nodes in the plan. The loop is called with tasks, or, for deliveries to
            pools, with a range of the plan's pool deliveries.
        places : ndarray of int64, shape (n + 1,)
            How many of the deliveries in `seen` come before each of the plan's `n` pool deliveries.
        """
        return None

    @abstractmethod
    def observe(self, seen: Observations) -> None:
        """Process deliveries to :attr:`nodes` or to the groups in :attr:`pools`. Called from several threads."""

    def state(self, now: float) -> Mapping[str, Any]:
        """Return the attack's state at the report at time `now`, for a checkpoint.

        Names and plain values, lists, arrays (references suffice: they are written before the run continues) and
        :class:`~gossiprec.runs.checkpoint_state.PartialArray` arrays, which
        keep their type and dimensions, but may become longer. It may leave out values that :meth:`allocate` computes.

        Raises
        ------
        NotImplementedError
            If the attack does not implement it. A run with such an attack writes no checkpoints, and reports this.
        """
        raise self._missing("state() and restore()")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned in an earlier process; called after :meth:`allocate`."""
        raise self._missing("state() and restore()")

    def export_node_state(self, nodes: I64, *, whole: bool) -> Mapping[str, Any]:
        """Return copies of the state of some individual nodes, for a run divided among shards.

        Parameters
        ----------
        nodes : ndarray of int64
            Some of :attr:`nodes`, ascending.
        whole : bool
            Whether to return all that a checkpoint needs, or only the values for a report.

        Raises
        ------
        NotImplementedError
            If the attack does not implement it. A run with such an attack is not divided.
        """
        raise self._missing("export_node_state() and import_node_state()")

    def import_node_state(self, nodes: I64, state: Mapping[str, Any]) -> None:
        """Take over the state of these nodes that :meth:`export_node_state` returned in another process."""
        raise self._missing("export_node_state() and import_node_state()")

    def _missing(self, methods: str) -> NotImplementedError:
        return NotImplementedError(f"the attack {type(self).__name__} has no {methods}")

    @property
    def state_bytes(self) -> int:
        """Bytes of the attack's state."""
        return 0

    def rankings(self) -> Sequence[Ranking]:
        """Return the present rankings, one per observer, relevance and momentum."""
        return ()

    def guesses(self) -> Iterable[MembershipGuesses]:
        """Return guesses about single training items, one per observer and momentum, if the attack makes any."""
        return ()

    def item_scores(self) -> Iterable[ItemScores]:
        """Return scores of single items of victims, each with labels of its own, if the attack computes any."""
        return ()

    def item_sets(self) -> Iterable[ItemSets]:
        """Return reconstructed item sets of victims, each with labels of its own, if the attack finds any."""
        return ()

    def attribute_scores(self) -> Iterable[AttributeScores]:
        """Return inferred attributes of users, each with labels of its own, if the attack infers any."""
        return ()

    def findings(self, now: float) -> Iterable[Finding]:
        """Return the attack's other findings at the report at time `now`, if any: numbers with labels."""
        return ()

    def upload_guesses(self) -> UploadGuesses | None:
        """Return guesses from uploads other than updates, which are judged once, at the end of the run, if any."""
        return None


ATTACKS: Registry[type[Attack]] = Registry("attack", __name__, group="attacks")
UPLOAD_ATTACKS: Registry[type[Attack]] = Registry("attack on uploads", f"{__name__}.uploads")
"""Attacks of the coordinator that a recommender requests, in one file that only their runs load."""
