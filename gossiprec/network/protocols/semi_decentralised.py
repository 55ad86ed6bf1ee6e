"""Semi-decentralised learning: heads aggregate the models of their clusters, and gossip among themselves.

References
----------
Y. Sun, J. Shao, Y. Mao, J. H. Wang, J. Zhang, "Semi-decentralized federated edge learning for fast convergence on
non-IID data", WCNC 2022 (arXiv 2104.12678): edge servers aggregate their clients, and then average with neighbours.
There all steps are taken together; here each head has a clock, and averages what has arrived when it wakes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import NonNegativeInt, model_validator

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Count, Options
from gossiprec.base.rng import generator
from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.network.protocols import PROTOCOLS, Protocol
from gossiprec.network.protocols.gossip import WakeOptions
from gossiprec.network.protocols.messages import Message, Send
from gossiprec.network.sim.clock import WakeClock
from gossiprec.rules.aggregators import make_aggregator

TASK, UPDATE, GOSSIP = "task", "update", "gossip"


class SemiDecentralisedOptions(Options):
    """Options of semi-decentralised learning."""

    clusters: Count = 3
    """number of clusters, each with a head; users are divided at random into clusters of about equal size"""
    head: Literal["user", "server"] = "user"
    """user: the node of a user, which trains the aggregate before it sends it; server: a node without a user"""
    heads: tuple[NonNegativeInt, ...] | None = None
    """nodes of the users that are heads, one for each cluster; drawn if not given"""
    fanout: NonNegativeInt = 1
    """number of random other heads to which a head sends per wake"""
    merge: Literal["samples", "mean"] = "samples"
    """weight of a member's model: samples (its positives) or mean (1); a head's model has the weight of its cluster"""
    start: Literal["common", "own"] = "common"
    """initial item tables and shared weights: the same for all nodes, or drawn per node"""
    wake: WakeOptions = WakeOptions(law="constant")
    rounds: Count = 100
    """wakes of each head"""

    @model_validator(mode="after")
    def _heads_fit(self) -> SemiDecentralisedOptions:
        if self.heads is not None and self.head == "server":
            raise ValueError(
                "heads: found nodes of users, but head is server; remove heads, or set head to user"
            )
        if self.heads is not None and len(set(self.heads)) != self.clusters:
            raise ValueError(
                f"heads: found {len(set(self.heads))} different nodes; expected one for each of {self.clusters} "
                "clusters; change heads or clusters"
            )
        if self.fanout >= self.clusters and self.fanout:
            raise ValueError(
                f"fanout: found {self.fanout}, but a head has only {self.clusters - 1} other heads; lower fanout, or "
                "raise clusters"
            )
        return self


@PROTOCOLS.register("semi-decentralised")
class SemiDecentralised(Protocol):
    """Heads wake: they average what arrived, and send it to their members and other heads. Members train and answer."""

    Options = SemiDecentralisedOptions
    options: SemiDecentralisedOptions

    def __init__(self, options: Any, **setting: Any) -> None:
        super().__init__(options, **setting)
        least = self.options.clusters * (2 if self.options.head == "user" else 1)
        if self.n_users < least:
            raise ScenarioError(
                f"protocol.clusters: found {self.options.clusters} for {self.n_users} nodes; expected at least one "
                f"member for each head ({least} nodes); lower clusters"
            )
        for head in self.options.heads or ():
            if head >= self.n_users:
                raise ScenarioError(
                    f"protocol.heads: found {head}; expected nodes, 0 to {self.n_users - 1}; correct the list"
                )
        self._wakes = dict.fromkeys(self.heads, 0)

    @property
    def n_servers(self) -> int:
        """One per cluster, if heads have no user."""
        return self.options.clusters if self.options.head == "server" else 0

    @classmethod
    def users_meet(cls, options: SemiDecentralisedOptions) -> bool:
        """Return whether heads are users' nodes."""
        return options.head == "user"

    @functools.cached_property
    def heads(self) -> list[int]:
        """The node of each cluster's head, ascending."""
        if self.options.head == "server":
            return list(range(self.n_users, self.n_nodes))
        return sorted(self.options.heads or self._order[: self.options.clusters].tolist())

    @functools.cached_property
    def _order(self) -> I64:
        return generator(self.seed, "clusters").permutation(self.n_users)

    @functools.cached_property
    def members(self) -> dict[int, list[int]]:
        """The members of each head's cluster, in order of id."""
        others = [int(node) for node in self._order if node not in set(self.heads)]
        return {head: sorted(others[k :: len(self.heads)]) for k, head in enumerate(self.heads)}

    @property
    def roles(self) -> I64:
        """Members, and heads."""
        roles = np.zeros(self.n_nodes, np.int64)
        roles[self.heads] = 1
        return roles

    @property
    def role_behaviours(self) -> Sequence[Behaviour]:
        """Members adopt what they receive; heads pool it."""
        on_wake = (Op.PUSH,) if self.options.head == "server" else (Op.TRAIN, Op.PUSH)
        return [
            Behaviour(on_wake=(), on_receive=(), on={TASK: (Op.ADOPT, Op.TRAIN, Op.PUSH)}),
            Behaviour(on_wake=on_wake, on_receive=(), on={UPDATE: (Op.POOL,), GOSSIP: (Op.POOL,)}),
        ]

    @functools.cached_property
    def clock(self) -> WakeClock:
        """One clock per head."""
        wake = self.options.wake
        return WakeClock(
            self.heads, mean=wake.mean, distribution=wake.law, redraw=wake.redraw, seed=self.seed
        )

    @property
    def wakes(self) -> int:
        """Number of rounds."""
        return self.options.rounds

    @property
    def max_messages_per_wake(self) -> int:
        """Messages to the largest cluster, their answers, and messages to other heads."""
        return 2 * max(map(len, self.members.values())) + self.options.fanout

    @property
    def common_start(self) -> bool:
        """Whether the option `start` is ``common``."""
        return self.options.start == "common"

    def merge_weights(self, n_positives: I64) -> F64:
        """Return the weights of the rule; a head has the weight of its cluster, a user without data 0."""
        own = make_aggregator(self.options.merge).weights(n_positives) * (n_positives > 0)
        weights = np.append(own, np.zeros(self.n_servers))
        for head, members in self.members.items():
            weights[head] += own[members].sum()
        return weights

    def on_wake(self, node: int, now: float) -> Sequence[Send]:
        """Return the members of the head, and random other heads."""
        number = self._wakes[node]
        self._wakes[node] = number + 1
        others = [head for head in self.heads if head != node]
        draw = generator(self.seed, "heads", node, number)
        count = self.options.fanout
        peers: list[int] = draw.choice(len(others), count, replace=False).tolist() if count else []
        return [
            *[Send(member, TASK) for member in self.members[node]],
            *[Send(others[peer], GOSSIP) for peer in peers],
        ]

    def on_missed_wake(self, node: int, now: float) -> None:
        """Skip the draws of this wake."""
        self._wakes[node] += 1

    def on_receive(self, message: Message) -> Sequence[Send]:
        """Return a member's answer to its head."""
        return [message.reply(UPDATE)] if message.kind == TASK else ()

    def predicted_fraction_met(self, rounds: float) -> float | None:
        """Return the mean over users' nodes, with C heads among N nodes and s receivers of a head, after V wakes.

        It is ``(2 (N - C) + C (C - 1) (1 - (1 - s / (C - 1))**V)) / (N (N - 1))``: from its first round on each member
        has met its head, and each head its members. If heads have no user, no user's node meets another.
        """
        if not self.users_meet(self.options):
            return None
        n, heads = self.n_users, len(self.heads)
        in_clusters = 2 * (n - heads) * min(1.0, rounds)
        missed = 1.0 - self.options.fanout / max(heads - 1, 1)  # of the other heads, in a round
        return (in_clusters + heads * (heads - 1) * float(1.0 - missed**rounds)) / (n * (n - 1))
