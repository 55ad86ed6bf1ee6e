"""The Community Detection Attack (CDA; later versions of its paper say CIA): who shares my taste?

An adversary u scores the models it receives on its own items: a victim whose model serves them well is taken for a
member of u's community. Momentum makes the models of several receptions one.

References
----------
"On the Resilience of Collaborative Learning-based Recommender Systems Against Community Detection Attack",
arXiv 2306.08929: Algorithm 1 (relevance), eq. 6 (momentum), section 6.4 (colluders).

Notes
-----
The paper's relevance (eq. 4) is ``mean_score``; its code ranks by NDCG against 99 negatives (``ndcg``). Both are here,
and ``standardized``. References are 99 fixed items per adversary; the code draws 99 per target item. All parameters
are averaged by momentum; a branch of the code kept the first user row. Colluders are possible members of a community.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from gossiprec.attacks import ATTACKS
from gossiprec.attacks.alone import ObserversAlone
from gossiprec.attacks.base import F32, I64, Attack, Meetings, Ranking, World
from gossiprec.attacks.pooled import ObserverPools
from gossiprec.attacks.targets import TargetItems
from gossiprec.compute.planner import Sightings
from gossiprec.compute.program import Program
from gossiprec.errors import ScenarioError
from gossiprec.options import Options
from gossiprec.rng import generator

Fraction = Annotated[float, Field(gt=0, le=1)]
Size = Annotated[int, Field(ge=1)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Rule = Literal["mean_score", "ndcg", "standardized"]
Ids = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
Fractions = Annotated[tuple[Fraction, ...], Field(min_length=1)]
Sizes = Annotated[tuple[Size, ...], Field(min_length=1)]
Momenta = Annotated[tuple[Momentum, ...], Field(min_length=1)]
Rules = Annotated[tuple[Rule, ...], Field(min_length=1)]


class SomeNodes(Options):
    """A random part of the nodes."""

    fraction: Fraction


class CDAOptions(Options):
    """Options of the attack. A list stands for one observer per combination; all are served by one run."""

    who: Literal["single", "coalition", "coordinator"] = Field(
        description="every node alone; nodes that share what they receive; the coordinator of a federated run"
    )
    nodes: Literal["all"] | SomeNodes | Ids = Field(
        default="all", description="single: which nodes observe: all, {fraction: f}, or ids"
    )
    fraction: Fraction | Fractions | None = Field(
        default=None, description="coalition: share of the nodes that collude, drawn at random"
    )
    members: Ids | None = Field(
        default=None, description="coalition: ids of the colluders, instead of fraction"
    )
    community_size: Size | Sizes = Field(default=50, description="K")
    momentum: Momentum | Momenta = Field(default=0.99, description="beta; 0: the latest model alone")
    relevance: Rule | Rules = Field(default="standardized", description="how a model is scored")
    reference_items: Annotated[int, Field(ge=2)] | Literal["all"] = Field(
        default=99,
        description="items outside the target set to compare with; all: every other item (pools hold them anyway)",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> CDAOptions:
        named = (self.fraction is not None) + (self.members is not None)
        if self.who == "coalition" and named != 1:
            raise ValueError("a coalition needs either fraction or members")
        if self.who != "coalition" and named:
            raise ValueError(f"fraction and members belong to who: coalition, found who: {self.who}")
        if self.who != "single" and self.nodes != "all":
            raise ValueError(f"nodes belongs to who: single, found who: {self.who}")
        return self


@ATTACKS.register("cda")
class CDA(Attack):
    """The attack by single nodes, by coalitions or by the coordinator."""

    Options = CDAOptions
    options: CDAOptions

    def __init__(self, options: CDAOptions, world: World) -> None:
        super().__init__(options, world)
        if options.who == "coordinator" and world.coordinator is None:
            raise ScenarioError(
                "observers: who: coordinator needs a protocol with a coordinator, such as fedavg"
            )
        self._names, self._groups, adversaries = self._who()
        momenta = np.array(_listed(options.momentum), np.float32)
        rules = _listed(options.relevance)
        targets = [
            TargetItems.of(world.targets, ids, n_references=options.reference_items, world=world)
            for ids in adversaries
        ]
        self._alone = None
        self._pooled = None
        if options.who == "single":
            self._alone = ObserversAlone(world, targets[0], momenta, rules)
        else:
            self._pooled = ObserverPools(world, targets, momenta, rules)

    def _who(self) -> tuple[list[str], list[I64], list[I64]]:
        """Return observer names, the nodes whose receptions each pool shares, and whose items are the targets."""
        options, world = self.options, self.world
        everyone = np.arange(world.n_users)
        if options.who == "coordinator":
            return ["coordinator"], [np.array([world.coordinator])], [everyone]
        if options.who == "single":
            if options.nodes == "all":
                return ["single"], [], [everyone]
            if isinstance(options.nodes, SomeNodes):
                fraction = options.nodes.fraction
                return [f"single-{100 * fraction:g}%"], [], [self._drawn(fraction)]
            ids = np.unique(options.nodes)
            return [f"single-{len(ids)}-nodes"], [], [ids]
        if options.members is not None:
            members = [np.unique(options.members)]
            return [f"coalition-{len(members[0])}-nodes"], members, members
        fractions = _listed(options.fraction)
        members = [self._drawn(fraction) for fraction in fractions]
        return [f"coalition-{100 * fraction:g}%" for fraction in fractions], members, members

    def _drawn(self, fraction: float) -> I64:
        """Return a random part of the nodes; a larger part contains a smaller one."""
        order = generator(self.world.seed, "observers").permutation(self.world.n_users)
        return np.sort(order[: max(1, round(fraction * self.world.n_users))])

    @property
    def pools(self) -> Sequence[I64]:
        """Coalitions, or the coordinator."""
        return self._groups

    def foresee(self, meetings: Meetings, first_pool: int) -> None:
        """Take the memory for what will be received."""
        if self._alone:
            self._alone.foresee(meetings)
        if self._pooled:
            self._pooled.foresee(first_pool)

    def announce(self, meetings: Meetings) -> None:
        """Tell single adversaries whom they are about to meet."""
        if self._alone:
            self._alone.announce(meetings)

    def warm_up(self) -> None:
        """Compile what will be needed."""
        super().warm_up()
        if self._pooled:
            self._pooled.warm_up()

    @property
    def state_bytes(self) -> int:
        """Memory of the kept rows."""
        return (self._alone or self._pooled).state_bytes  # type: ignore[union-attr]

    def observe(self, rows: F32, program: Program, tasks: I64) -> None:
        """Single nodes see what they merge."""
        if self._alone:
            self._alone.observe(rows, program, tasks)

    def sight(self, rows: F32, sightings: Sightings, first: int, last: int) -> None:
        """Pools see what their members receive."""
        if self._pooled:
            self._pooled.sight(rows, sightings, first, last)

    def rankings(self) -> list[Ranking]:
        """Return the present rankings."""
        sizes = tuple(_listed(self.options.community_size))
        found = self._alone.rankings() if self._alone else self._pooled.rankings()  # type: ignore[union-attr]
        return [
            Ranking(self._names[pool], rule, float(np.format_float_positional(beta)), sizes, ids, scores)
            for pool, rule, beta, ids, scores in found
        ]


def _listed(value: Any) -> list[Any]:
    """Return the values of an option that holds one or several, each once."""
    return list(dict.fromkeys(value if isinstance(value, tuple) else (value,)))
