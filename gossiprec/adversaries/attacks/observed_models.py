"""Attacks on what observers keep of each sender: its user row, its item rows, and which items its updates moved.

An update is the difference between an answer and the version that it was made from, which a coordinator knows. Between
peers it is the difference between two successive models of the same sender; what the sender merged in between is part
of it.

Notes
-----
The gradient of an item's row is, for models that score an item by a product with a user's row, a number times one
direction that all items of the update share. The number has one sign for items that the user has and the other for
sampled negatives. :func:`signed_changes` estimates the direction as the leading axis of all changes, and takes the side
to which fewer items moved as the user's: a user has fewer items than negatives. Differences from a mean of models have
no such majority; there the user's side is the one to which some items are further away than most.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from gossiprec.adversaries.attacks import Attack, AttackContext, AttackMemoryInputs
from gossiprec.adversaries.attacks.findings import observer_names
from gossiprec.adversaries.attacks.observations import Observations
from gossiprec.adversaries.attacks.scoring_attack import (
    Fraction,
    GroupOptions,
    Ids,
    NodeShare,
    choose_coalitions,
    choose_nodes,
)
from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.models.base.parameter_blocks import Layout

Kind = Literal["user", "items", "updates"]
BLOCK = 64
"""Number of deliveries that are read together, so that copies of whole models stay few."""


class WatcherOptions(GroupOptions):
    """Options of attacks that observe by single nodes, by one coalition, or by the coordinator."""

    who: Literal["single", "coalition", "coordinator"]
    """single: every node on its own; coalition: nodes that share what they receive; coordinator: the coordinator of
    a federated run"""
    nodes: Literal["all"] | NodeShare | Ids = "all"
    """single: nodes that observe; all, {fraction: f} or a list of ids"""
    fraction: Fraction | None = None
    """coalition: fraction of the nodes that collude, drawn at random"""
    members: Ids | None = None
    """coalition: ids of the colluders, instead of fraction"""
    over: Literal["latest", "all"] = "latest"
    """what is kept of a sender: the latest of what it sent, or the mean of all"""
    placement: ClassVar[str] = "random"
    victim: ClassVar[None] = None
    placement_until: ClassVar[None] = None

    @model_validator(mode="after")
    def _fits_together(self) -> WatcherOptions:
        named = (self.fraction is not None) + (self.members is not None)
        if named != (self.who == "coalition"):
            raise ValueError(
                f"found who: {self.who} and {named} of fraction and members; expected one of them for a coalition, "
                "and none for others"
            )
        if self.who != "single" and self.nodes != "all":
            raise ValueError(f"nodes belongs to who: single, found who: {self.who}")
        return self


class Watchers:
    """The nodes that observe, in groups that share what they receive.

    Parameters
    ----------
    name : str
        The name of the attack.
    options : WatcherOptions
    context : AttackContext

    Attributes
    ----------
    label : str
        The name of the observer.
    nodes : ndarray of int64
        Nodes that observe on their own, each a group; empty for a coalition.
    pools : list of ndarray of int64
        The coalition, if there is one.
    members : list of ndarray of int64
        The nodes of each group.
    """

    def __init__(self, name: str, options: WatcherOptions, context: AttackContext) -> None:
        self.label = observer_names(options)[0]
        self.nodes, self.pools = np.zeros(0, np.int64), []
        if options.who == "coordinator":
            if context.coordinator is None:
                raise ScenarioError(
                    f"observers: {name}: found who: coordinator; expected a protocol with a coordinator, such as "
                    "fedavg; choose who: single or coalition"
                )
            self.nodes = np.array([context.coordinator])
        elif options.who == "single":
            self.nodes = choose_nodes(context, options.nodes)
        else:
            self.pools = choose_coalitions(context, options)
        self.members = self.pools or [self.nodes[k : k + 1] for k in range(len(self.nodes))]
        wrong = [node for own in self.members for node in own.tolist() if node >= len(context.hides_user)]
        if wrong:
            raise ScenarioError(
                f"observers: {name}: found node {wrong[0]}; expected 0 to {context.n_users - 1}; correct the ids"
            )

    @property
    def coalitions(self) -> dict[str, I64]:
        """The members of the coalition, by its name."""
        return dict(zip([self.label], self.pools, strict=False))

    def groups_of(self, seen: Observations) -> I64:
        """Return the group that sees each delivery."""
        if self.pools:
            return seen.groups.astype(np.int64)
        return np.searchsorted(self.nodes, seen.receivers)


def signed_changes(changes: F32, *, further: bool = False) -> F32:
    """Return how far and to which side each item has moved along the direction in which most of them moved.

    Parameters
    ----------
    changes : ndarray of float32, shape (n_items, width)
    further : bool
        Whether the user's side is the one to which some items moved further than most, not the one of fewer items.

    Returns
    -------
    ndarray of float32, shape (n_items,)
        Of Euclidean norm 1, above 0 for items that the sender probably has; 0 for items that did not move.
    """
    rows = changes.astype(np.float64)
    _, axes = np.linalg.eigh(rows.T @ rows)
    found = rows @ axes[:, -1]
    norm = np.linalg.norm(found)
    if norm == 0:
        return np.zeros(len(rows), np.float32)
    side = 0.0 if further else float(np.count_nonzero(found < 0) - np.count_nonzero(found > 0))
    side = side or float(((found - np.median(found)) ** 3).sum())
    return np.asarray(found / (norm if side >= 0 else -norm), np.float32)


class ObservedModels:
    """What the groups of an attack keep of each sender.

    Parameters
    ----------
    watchers : Watchers
    context : AttackContext
    kinds : collection of str
        What is kept.
    average : bool
        Whether the mean of all that was received is kept, instead of the latest.

    Attributes
    ----------
    kept : dict of str to ndarray of float32, shape (n_groups, n_users, width)
    on_change : callable or None
        Called with the group, the sender, the item rows before an update and how it moved them; set by an attack.
    counts : dict of str to ndarray of int32, shape (n_groups, n_users)
        How many values of a sender were received; 0 if its row in `kept` means nothing.
    """

    def __init__(
        self, watchers: Watchers, context: AttackContext, kinds: Collection[Kind], *, average: bool
    ) -> None:
        self._watchers, self._n_users, self._average = watchers, context.n_users, average
        self._layout, self._coordinator = context.scorer.layout, context.coordinator
        shape = (len(watchers.members), context.n_users)
        widths = kept_widths(self._layout)
        self.kept = {kind: np.zeros((*shape, widths[kind]), np.float32) for kind in kinds}
        self.counts = {kind: np.zeros(shape, np.int32) for kind in kinds}
        self.on_change: Callable[[int, int, F32, F32], None] | None = None
        self._sent: F32 | None = None
        self._by_coordinator = context.coordinator in watchers.nodes.tolist()
        compares = "updates" in kinds and not self._by_coordinator
        self._previous = np.zeros((*shape, widths["items"]) if compares else (0, 0, 0), np.float32)
        self._met = np.zeros(shape, np.bool_)

    def observe(self, seen: Observations) -> None:
        """Take over what some deliveries show, in their order."""
        bases = self._bases(seen) if "updates" in self.kept and self._by_coordinator else None
        groups, senders = self._watchers.groups_of(seen), seen.senders.astype(np.int64)
        of_users = np.flatnonzero(senders < self._n_users)
        for low in range(0, len(of_users), BLOCK):
            some = of_users[low : low + BLOCK]
            models = seen.models(some)
            for model, k in zip(models, some.tolist(), strict=True):
                self._note(model, groups[k], senders[k], None if bases is None else bases[k])

    def _note(self, model: F32, group: int, sender: int, base: F32 | None) -> None:
        layout = self._layout
        items = model[layout.items]
        if not np.isfinite(items).all():  # a run with such a model ends with an error
            return
        if "user" in self.kept:
            rows = model[layout.users].reshape(layout.n_users, layout.user_width)
            own = rows[int(layout.user_index(np.array([sender]))[0])]
            if own.size and np.isfinite(own).all():
                self._blend("user", group, sender, own)
        if "items" in self.kept:
            self._blend("items", group, sender, items)
        if "updates" in self.kept:
            if not self._by_coordinator:
                base = self._previous[group, sender].copy() if self._met[group, sender] else None
                self._previous[group, sender], self._met[group, sender] = items, True
            if base is not None:
                changes = (items - base).reshape(layout.n_items, layout.item_width)
                self._blend("updates", group, sender, signed_changes(changes))
                if self.on_change is not None:
                    self.on_change(int(group), int(sender), base.reshape(changes.shape), changes)

    def _blend(self, kind: Kind, group: int, sender: int, value: F32) -> None:
        self.counts[kind][group, sender] += 1
        kept = self.kept[kind][group, sender]
        if self._average:
            kept += (value - kept) / np.float32(self.counts[kind][group, sender])
        else:
            kept[:] = value

    def _bases(self, seen: Observations) -> list[F32 | None]:
        """Return the item rows from which each answer to the coordinator was made, None if it is not known yet.

        A round begins when the coordinator merges its first answer, which replaces the version that it had sent; an
        update names its version.
        """
        found: list[F32 | None] = []
        begins = seen.begins_round
        for k in range(len(seen)):
            if begins[k]:
                self._sent = seen.own_model(k)[self._layout.items].copy()
            base = seen.base(k)
            found.append(self._sent if base is None else base[self._layout.items])
        return found

    def heard(self, kind: Kind, group: int) -> I64:
        """Return the users of whom a group has kept something, without its own members."""
        users = np.flatnonzero(self.counts[kind][group])
        return users[~np.isin(users, self._watchers.members[group])]

    def features(self, kind: Kind, group: int) -> F32:
        """Return the features of the users that a group has heard, shape (n_users, width).

        Of item rows this is how far and to which side each item of a user is from the mean of all users.
        """
        kept: F32 = self.kept[kind][group]
        if kind != "items":
            return kept
        layout, users = self._layout, np.flatnonzero(self.counts[kind][group])
        found = np.zeros((len(kept), layout.n_items), np.float32)
        if not len(users):
            return found
        mean = kept[users].mean(axis=0, dtype=np.float64).astype(np.float32)
        for user in users.tolist():
            changes = (kept[user] - mean).reshape(layout.n_items, layout.item_width)
            found[user] = signed_changes(changes, further=True)
        return found

    def state(self) -> dict[str, Any]:
        """Return the kept numbers, for a checkpoint."""
        return dict(self._arrays()) | {"sent": self._sent}

    def restore(self, state: Any) -> None:
        """Restore the numbers that :meth:`state` returned."""
        for name, own in self._arrays():
            own[...] = state[name]
        self._sent = state["sent"]

    def _arrays(self) -> Iterator[tuple[str, Any]]:
        for kind in self.kept:
            yield kind, self.kept[kind]
            yield f"{kind}_counts", self.counts[kind]
        yield "previous", self._previous
        yield "met", self._met

    @property
    def state_bytes(self) -> int:
        """Bytes of what is kept."""
        return sum(array.nbytes for _, array in self._arrays())


def kept_widths(layout: Layout) -> dict[Kind, int]:
    """Return how many numbers of each kind are kept of a sender."""
    return {
        "user": layout.user_width,
        "items": layout.n_items * layout.item_width,
        "updates": layout.n_items,
    }


class WatchingAttack(Attack):
    """An attack on what is kept of each sender, by single nodes, one coalition or the coordinator.

    Parameters
    ----------
    options : WatcherOptions
    context : AttackContext
    """

    name: ClassVar[str]
    """The name under which it is registered."""
    uses_torch = True  # not torch, but LAPACK: its last digits also differ between processors
    options: WatcherOptions

    def __init__(self, options: Any, context: AttackContext) -> None:
        super().__init__(options, context)
        self._watchers = Watchers(self.name, options, context)
        kinds = self.kinds_of(options)
        self._observed = ObservedModels(self._watchers, context, kinds, average=options.over == "all")

    @classmethod
    def kinds_of(cls, options: Any) -> Sequence[Kind]:
        """Return the kinds of numbers that are kept of each sender."""
        raise NotImplementedError

    @classmethod
    def expected_bytes(cls, options: Any, prospect: AttackMemoryInputs) -> float:
        """Return an estimate of the bytes that are kept, from the sizes of a run."""
        kinds, widths = cls.kinds_of(options), kept_widths(prospect.layout)
        groups = prospect.count_nodes(options.nodes) if options.who == "single" else 1
        width = sum(widths[kind] for kind in kinds)
        if "updates" in kinds and options.who != "coordinator":
            width += widths["items"]
        return 4.0 * groups * prospect.n_users * width

    @property
    def label(self) -> str:
        """The attack and its observer."""
        return f"{self.name}-{self.options.who}"

    @property
    def nodes(self) -> I64:
        """Single nodes, or the coordinator."""
        return self._watchers.nodes

    @property
    def pools(self) -> list[I64]:
        """The coalition."""
        return self._watchers.pools

    @property
    def coalitions(self) -> dict[str, I64]:
        """Members of the coalition, by its name."""
        return self._watchers.coalitions

    def observe(self, seen: Observations) -> None:
        """Keep some numbers of each sender."""
        self._observed.observe(seen)

    def state(self, now: float) -> dict[str, Any]:
        """Return the kept numbers."""
        return self._observed.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the numbers that :meth:`state` returned."""
        self._observed.restore(state)

    @property
    def state_bytes(self) -> int:
        """Bytes of the kept numbers."""
        return self._observed.state_bytes
