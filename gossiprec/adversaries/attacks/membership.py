"""Membership inference for single items: who observes, the candidates, and the small models that observers keep.

An observer keeps of each victim's latest model the user row, the rows of the victim's candidates, and the shared
weights. A subclass turns these into one score for each candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from gossiprec.adversaries.attacks import (
    CANDIDATE_MEASURES,
    Attack,
    AttackContext,
    AttackMemoryInputs,
    ItemScores,
    fraction_to_count,
)
from gossiprec.adversaries.attacks.candidates import NonMembers
from gossiprec.adversaries.attacks.findings import Label, TableKey, observer_names
from gossiprec.adversaries.attacks.observations import MergeDeliveries, Observations
from gossiprec.adversaries.attacks.scoring_attack import (
    Ids,
    NodeShare,
    PlacementOptions,
    check_coordinator,
    choose_coalitions,
)
from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST
from gossiprec.base.ragged import Ragged
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import generator
from gossiprec.base.rounding import difference
from gossiprec.models.base.kernel_interface import ScoreQuery
from gossiprec.models.base.parameter_blocks import Layout

FEW = NodeShare(fraction=0.05)
"""Single observers by default."""
AT_ONCE = 256
"""Number of received models of which the kept parts are copied together."""


class MembershipOptions(PlacementOptions):
    """Options of membership inference for single items."""

    who: Literal["single", "coalition", "coordinator"]
    """single: every node on its own; coalition: nodes that share what they receive; coordinator: the coordinator of
    a federated run"""
    nodes: Literal["all"] | NodeShare | Ids | None = None  # type: ignore[assignment]
    """single: nodes that observe; all, {fraction: f}, a list of ids, or null for a twentieth of the users"""
    victims: Literal["all"] | NodeShare | Ids = "all"
    """users of which items are guessed; all, {fraction: f} or a list of ids"""
    pairs: Annotated[int, Field(ge=1, le=LARGEST)] = 50
    """largest number of training items of a victim among its candidates, which contain as many other items"""
    non_members: NonMembers = "popularity"
    """the other items: for each training item one that as many other users have, uniform, or held-out (the victim's
    validation and test items)"""
    precision_at: int = Field(default=10, ge=1, le=LARGEST)
    """length of a victim's list of likeliest candidates, of which the precision is measured"""

    @model_validator(mode="after")
    def _nodes_observe(self) -> MembershipOptions:
        if self.who != "single" and self.nodes is not None:
            raise ValueError(f"nodes belongs to who: single, found who: {self.who}")
        return self


def _names_of(options: MembershipOptions) -> list[str]:
    return observer_names(options.model_copy(update={"nodes": options.nodes or FEW}))


def selected_users(context: AttackContext, chosen: Any, key: str) -> I64:
    """Return the users that the option `key` selects: all, a random share, or ids.

    Raises
    ------
    ScenarioError
        If a user does not exist.
    """
    if chosen == "all":
        return np.arange(context.n_users)
    if isinstance(chosen, NodeShare):
        order = generator(context.seed, f"membership-{key}").permutation(context.n_users)
        return np.sort(order[: fraction_to_count(context.n_users, chosen.fraction)])
    users = np.unique(chosen)
    if users[-1] >= context.n_users:
        raise ScenarioError(
            f"observers: {key} names user {users[-1]}; expected up to {context.n_users - 1}, the last user"
        )
    return users


class MembershipAttack(Attack):
    """Membership inference for single items, by single nodes, coalitions or the coordinator.

    Parameters
    ----------
    options : MembershipOptions
    context : AttackContext

    Attributes
    ----------
    candidates : Ragged of int32
        Candidates of each user; none of users that are no victims.
    small : Layout
        Layout of the kept models, with a place for each candidate of the victim with most.
    kept : ndarray of float32, shape (n_observers, n_users, row_size)
        Parts of the latest model of each user that an observer has heard from; zero for user rows that are hidden.
    heard : ndarray of bool, shape (n_observers, n_users)
    directions : ndarray of float32, shape (n_observers, n_users, item_width)
        Direction of the latest update of users that hide their row.
    evidence : ndarray of float32, shape (n_observers, n_candidates)
        How much updates raised the scores of candidates, if the attack compares versions.
    """

    name: ClassVar[str]
    """The name under which it is registered."""
    measures = CANDIDATE_MEASURES
    compares: ClassVar[bool] = False
    """Whether it also needs the version before, of victims that share their user row."""

    kept_arrays: ClassVar[tuple[str, ...]] = ("kept", "heard", "directions", "evidence")
    """Arrays that change during a run, with a row for each observer."""

    Options = MembershipOptions
    options: MembershipOptions

    def __init__(self, options: Any, context: AttackContext) -> None:
        super().__init__(options, context)
        context.check_plain_samples(self.name)
        if not (self.compares or context.scorer.layout.user_width):
            raise ScenarioError(
                f"observers: {self.name} scores items with a victim's user row, but "
                f"{registry_name(context.scorer.model)} has none; use update-mia, or a model with user rows such as gmf"
            )
        check_coordinator(context, options)
        self._names, self._nodes = _names_of(options), np.zeros(0, np.int64)
        if options.who == "coordinator":
            self._nodes = np.array([context.coordinator])
        elif options.who == "single":
            self._nodes = selected_users(context, options.nodes or FEW, "nodes")
        self._groups = choose_coalitions(context, options) if options.who == "coalition" else []
        self.candidates = self._drawn_candidates()
        layout = context.scorer.layout
        self.small = replace(layout, n_items=int(self.candidates.sizes.max()), n_users=1)
        self._columns = self._kept_columns(layout)

    def _drawn_candidates(self) -> Ragged:
        context, options = self.context, self.options
        assert context.candidates is not None
        drawn = context.candidates(options.pairs, options.non_members)
        victims = selected_users(context, options.victims, "victims")
        is_victim = np.zeros(context.n_users, np.bool_)
        is_victim[victims] = True
        is_victim[self.known_users()] = False
        sizes = np.where(is_victim, drawn.sizes, 0)
        if not sizes.any():
            raise ScenarioError(
                f"observers: {self.name}: found no victim with a training item and an item to compare it with "
                f"(non_members: {options.non_members}); expected at least one; choose other victims or non_members"
            )
        return Ragged.from_sizes(sizes, drawn.values[is_victim[drawn.row_of_each_value]])

    def known_users(self) -> I64:
        """Return the users of which the attacker has the data, who are no victims."""
        own = [self.nodes[self.nodes < self.context.n_users], *self._groups]
        # a single observer is the victim of another
        return np.zeros(0, np.int64) if self.options.who == "single" else np.concatenate(own).astype(np.int64)

    def _kept_columns(self, layout: Layout) -> I64:
        """Return for each user the columns of a whole row in the order of a kept one, shape (n_users, size)."""
        users, sizes = np.arange(self.context.n_users), self.candidates.sizes
        places = np.zeros((len(users), self.small.n_items), np.int64)
        place = np.arange(len(self.candidates.values)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places[self.candidates.row_of_each_value, place] = self.candidates.values
        first = layout.users.start + layout.user_index(users) * layout.user_width
        items = layout.items.start + places[:, :, None] * layout.item_width + np.arange(layout.item_width)
        shared = np.broadcast_to(
            np.arange(layout.shared.start, layout.shared.stop), (len(users), layout.n_shared)
        )
        return np.concatenate(
            [first[:, None] + np.arange(layout.user_width), items.reshape(len(users), -1), shared], axis=1
        )

    @classmethod
    def table_keys(cls, options: Any) -> frozenset[TableKey]:
        """Return an empty set: it ranks no users."""
        return frozenset()

    @classmethod
    def expected_bytes(cls, options: Any, prospect: AttackMemoryInputs) -> float:
        """Return an estimate of the memory of the kept models."""
        n_items = min(round(2 * min(options.pairs, prospect.own_items)), prospect.layout.n_items)
        row = replace(prospect.layout, n_items=max(1, n_items), n_users=1).row_size
        n_observers = len(_names_of(options))
        if options.who == "single":
            n_observers = prospect.count_nodes(options.nodes or FEW)
        return 4.0 * n_observers * prospect.n_users * row

    @property
    def label(self) -> str:
        """The attack and its observer."""
        return f"{self.name}-{self.options.who}"

    @property
    def nodes(self) -> I64:
        """Single observers, or the coordinator, which sees the models that it merges."""
        return self._nodes

    @property
    def pools(self) -> Sequence[I64]:
        """Coalitions."""
        return self._groups

    @property
    def coalitions(self) -> dict[str, I64]:
        """Members of each coalition, by the coalition's name."""
        return dict(zip(self._names, self._groups, strict=True)) if self._groups else {}

    def allocate(self, deliveries: Any) -> None:
        """Allocate the kept models."""
        n_observers, n_users = max(len(self.nodes), len(self._groups)), self.context.n_users
        self.kept = np.zeros((n_observers, n_users, self.small.row_size), np.float32)
        self.heard = np.zeros((n_observers, n_users), np.bool_)
        self._sent: F32 = np.zeros(0, np.float32)
        moves = self.compares or self.context.hides_user[:n_users].any()
        n_kept = len(self.candidates.values) if moves else 0
        self.directions = np.zeros((n_observers, n_users, self.small.item_width if moves else 0), np.float32)
        self.evidence = np.zeros((n_observers, n_kept if self.compares else 0), np.float32)
        self._moves = bool(moves)

    @property
    def state_bytes(self) -> int:
        """Memory of the kept models."""
        return sum(getattr(self, name).nbytes for name in self.kept_arrays)

    def state(self, now: float) -> dict[str, Any]:
        """Return the kept models."""
        return {"sent": self._sent, **{name: getattr(self, name) for name in self.kept_arrays}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the kept models that :meth:`state` returned."""
        for name in self.kept_arrays:
            setattr(self, name, state[name])
        self._sent = state["sent"]

    def export_node_state(self, nodes: I64, *, whole: bool) -> dict[str, Any]:
        """Return the kept models of some single observers."""
        places = np.searchsorted(self.nodes, nodes)
        return {"sent": self._sent, **{name: getattr(self, name)[places] for name in self.kept_arrays}}

    def import_node_state(self, nodes: I64, state: Mapping[str, Any]) -> None:
        """Take over the kept models of some single observers."""
        places = np.searchsorted(self.nodes, nodes)
        for name in self.kept_arrays:
            getattr(self, name)[places] = state[name]
        if len(state["sent"]):
            self._sent = state["sent"]

    def observe(self, seen: Observations) -> None:
        """Keep the parts of the received models, and how they moved."""
        senders = seen.senders.astype(np.int64)
        is_user = senders < self.context.n_users
        if self.options.who == "coordinator" and self._moves and not self._has_bases(seen):
            self._observe_rounds(seen, senders, is_user)
            return
        some = np.flatnonzero(is_user)
        self._keep(seen, some[self.candidates.sizes[senders[some]] > 0])

    @staticmethod
    def _has_bases(seen: Observations) -> bool:
        return isinstance(seen.raw, MergeDeliveries) and seen.raw.bases is not None

    def _observe_rounds(self, seen: Observations, senders: I64, is_user: Bools) -> None:
        """Keep the answers to each version; before the first one, read the version that the coordinator sent."""
        begins = np.flatnonzero(seen.begins_round)
        for low, high in zip([0, *begins.tolist()], [*begins.tolist(), len(seen)], strict=True):
            if low in begins:
                self._sent = seen.own_model(low)
            some = np.arange(low, high)[is_user[low:high]]
            if len(self._sent):
                self._keep(seen, some[self.candidates.sizes[senders[some]] > 0])

    def _keep(self, seen: Observations, some: I64) -> None:
        """Keep the parts of some received models of victims, in order."""
        senders, all_slots = seen.senders.astype(np.int64), self._slots_of(seen)
        for low in range(0, len(some), AT_ONCE):
            part = some[low : low + AT_ONCE]
            victims, slots = senders[part], all_slots[part]
            models = self._parts(seen.raw.rows, seen.rows[part], victims)
            if self._moves:
                before = self._versions_before(
                    seen, part, models, list(zip(slots.tolist(), victims.tolist(), strict=True))
                )
                self.note_moves(slots, victims, before, models)
            for slot, victim, model in zip(slots.tolist(), victims.tolist(), models, strict=True):
                self.kept[slot, victim] = model
                self.heard[slot, victim] = True

    def _parts(self, rows: Any, places: Any, victims: I64) -> F32:
        """Return the parts of some versions that are kept, shape (n, row_size); zero for hidden user rows."""
        models = np.zeros((len(victims), self.small.row_size), np.float32)
        models[:, : self._columns.shape[1]] = rows[places[:, None], self._columns[victims]]
        models[self.context.hides_user[victims], : self.small.user_width] = 0.0
        return models

    def _slots_of(self, seen: Observations) -> I64:
        if self.options.who == "coalition":
            return seen.groups.astype(np.int64)
        return np.searchsorted(self.nodes, seen.receivers)

    def _versions_before(
        self, seen: Observations, part: I64, models: F32, pairs: list[tuple[int, int]]
    ) -> F32:
        """Return the parts of the versions before some received ones, NaN if an observer has none."""
        before, width = np.full_like(models, np.nan), self._columns.shape[1]
        if self.options.who == "coordinator":
            victims = seen.senders[part].astype(np.int64)
            if self._has_bases(seen):
                assert isinstance(seen.raw, MergeDeliveries)
                return self._parts(seen.raw.bases, seen.rows[part], victims)
            before[:, :width] = self._sent[self._columns[victims]]
            return before
        latest: dict[tuple[int, int], int] = {}
        for k, pair in enumerate(pairs):
            if pair in latest:
                before[k] = models[latest[pair]]
            elif self.heard[pair]:
                before[k] = self.kept[pair]
            latest[pair] = k
        return before

    def note_moves(self, slots: I64, victims: I64, before: F32, after: F32) -> None:
        """Note how the rows of the candidates of some victims moved, in order.

        Parameters
        ----------
        slots, victims : ndarray of int64, shape (n,)
            Observers, by their places, and victims.
        before, after : ndarray of float32, shape (n, row_size)
            Small models; NaN if the version before is not known.
        """
        hides = self.context.hides_user[victims]
        known = ~np.isnan(before[:, self.small.items.start])
        sharing = np.flatnonzero(known & ~hides) if self.compares else np.zeros(0, np.int64)
        gains = np.zeros((len(victims), self.small.n_items))
        if len(sharing):
            replaced = after[sharing]
            replaced[:, self.small.items] = before[sharing][:, self.small.items]
            gains[sharing] = self._all_scores(after[sharing]) - self._all_scores(replaced)
        for k in np.flatnonzero(known & (hides | self.compares)).tolist():
            begin, end = self.candidates.offsets[victims[k] : victims[k] + 2]
            evidence = as_shares(gains[k, : end - begin])
            if hides[k]:
                moves = self._item_rows(after[k]).astype(np.float64) - self._item_rows(before[k])
                self.directions[slots[k], victims[k]], evidence = judge_moves(moves[: end - begin])
            if self.compares:
                self.evidence[slots[k], begin:end] += evidence

    def _all_scores(self, models: F32) -> F64:
        """Return the scores of all places of small models, shape (n, n_items)."""
        n, n_items = len(models), self.small.n_items
        offsets = np.arange(n + 1, dtype=np.int64) * n_items
        items = np.tile(np.arange(n_items, dtype=np.int32), n)
        query = ScoreQuery(self.small, models, np.arange(n), np.zeros(n, np.int64), offsets, items)
        return self.context.scorer.score(query).reshape(n, n_items).astype(np.float64)

    def _item_rows(self, model: F32) -> F32:
        return model[self.small.items].reshape(-1, self.small.item_width)

    def item_scores(self) -> Iterator[ItemScores]:
        """Yield the scores of the candidates of all victims that were heard."""
        if self.options.who == "single":
            scores = [self._scores_of(slot) for slot in range(len(self.nodes))]
            parts = [self._known(slot, scores[slot]) for slot in range(len(scores))]
            columns = [np.concatenate([part[c] for part in parts]) for c in range(3)]
            adversaries = np.repeat(self.nodes, [len(part[0]) for part in parts])
            others = columns[0] != adversaries
            victims, items, values = (column[others] for column in columns)
            yield self._as_scores(self._names[0], victims, items, values, adversaries[others])
            return
        for slot, name in enumerate(self._names):
            yield self._as_scores(name, *self._known(slot, self._scores_of(slot)))

    def _scores_of(self, slot: int) -> F64:
        """Return the scores of all candidates by an observer."""
        raise NotImplementedError

    def _known(self, slot: int, scores: F64) -> tuple[I64, Any, F64]:
        victims = self.candidates.row_of_each_value
        known = self.heard[slot, victims] & ~np.isnan(scores)
        return victims[known], self.candidates.values[known], scores[known]

    def _as_scores(
        self, name: str, victims: I64, items: Any, scores: F64, adversaries: I64 | None = None
    ) -> ItemScores:
        labels: dict[str, Label] = {"observer": name}
        return ItemScores(
            victims, items, scores, labels, self.options.precision_at, adversaries, are_candidates=True
        )

    def logits(self, slot: int) -> F64:
        """Return the scores of all candidates by the models that an observer keeps.

        Those of victims that hide their user row are the projections of the item rows on the direction in which rows
        moved, in their own standard deviations.
        """
        sizes = self.candidates.sizes
        victims = np.flatnonzero(self.heard[slot] & (sizes > 0))
        is_heard = np.zeros(len(sizes), np.bool_)
        is_heard[victims] = True
        of_heard = is_heard[self.candidates.row_of_each_value]
        ends = np.cumsum(sizes[victims])
        places = np.arange(int(sizes[victims].sum())) - np.repeat(ends - sizes[victims], sizes[victims])
        query = ScoreQuery(
            self.small, self.kept[slot], victims, np.zeros_like(victims),
            np.concatenate([[0], ends]).astype(np.int64), places.astype(np.int32),
        )  # fmt: skip
        found = np.full(len(self.candidates.values), np.nan)
        found[of_heard] = self.context.scorer.score(query)
        for victim in victims[self.context.hides_user[victims]].tolist():
            begin, end = self.candidates.offsets[victim : victim + 2]
            rows = self._item_rows(self.kept[slot, victim])[: end - begin].astype(np.float64)
            found[begin:end] = standardised((rows * self.directions[slot, victim]).sum(axis=1))
        return found


@np.errstate(over="ignore", invalid="ignore")
def judge_moves(moved: F64) -> tuple[F64, F64]:
    """Return the direction in which rows moved, of length 1, and how far each moved in it.

    Rows that moved further weigh more: training items are trained in each epoch and sampled ones rarely, so the items
    that moved furthest point towards training items. Distances are shares of the length of all moves together.

    Parameters
    ----------
    moved : ndarray of float64, shape (n_items, item_width)
    """
    lengths = np.sqrt((moved * moved).sum(axis=1))
    direction = (lengths[:, None] * moved).sum(axis=0)
    size = np.sqrt((direction * direction).sum())
    direction = direction / size if size > 0 else np.zeros_like(direction)
    return direction, as_shares((moved * direction).sum(axis=1), float(np.sqrt((lengths * lengths).sum())))


def as_shares(moves: F64, whole: float | None = None) -> F64:
    """Return moves as shares of the length of all together; zeros if nothing moved."""
    whole = float(np.sqrt((moves * moves).sum())) if whole is None else whole
    return moves / whole if whole > 0 else np.zeros_like(moves)


@np.errstate(over="ignore", invalid="ignore")
def standardised(values: F64) -> F64:
    """Return values in deviations from their mean; zeros if all are equal."""
    spread = values.std()
    varies = spread > 0 and difference(values.max(), values.min()) > 0
    return (values - values.mean()) / spread if varies else np.zeros_like(values)
