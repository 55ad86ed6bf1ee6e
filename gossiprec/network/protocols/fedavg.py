"""FedAvg: a star with the coordinator node at its centre; its wakes are the rounds.

References
----------
McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017;
CDA paper (arXiv 2306.08929), section 2.2; for buffered aggregation :mod:`gossiprec.network.protocols.round_policy`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import registered_name
from gossiprec.base.rng import generator, purpose_id, uniforms
from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.network.protocols import PROTOCOLS, CoordinatedProtocol
from gossiprec.network.protocols.round_policy import (
    BufferedOptions,
    BufferedRounds,
    ClientTasks,
    ClockedRounds,
    DeadlineRounds,
    FedAvgOptions,
    RoundPolicy,
    sample_proportionally,
)
from gossiprec.rules.aggregators import InboxConfig, make_aggregator
from gossiprec.rules.servers import Server, make_server

ASKED = purpose_id("asked")


@PROTOCOLS.register("fedavg")
class FedAvg(CoordinatedProtocol):
    """The coordinator sends its model to the round's clients; they adopt it, train and answer; it averages.

    Answers that arrive after the next round has begun count for that round, unless the options differ.
    """

    Options = FedAvgOptions
    options: FedAvgOptions
    replies = True

    def __init__(self, options: Any, **setting: Any) -> None:
        super().__init__(options, **setting)
        if self.options.slice is not None and self.options.slice > self.n_users:
            raise ScenarioError(
                f"protocol.slice: found {self.options.slice}, but there are only {self.n_users} clients; "
                "lower it, or remove it to ask all clients at once"
            )
        self._n_wakes = 0
        self._jobs = ClientTasks()
        self._pace = self._new_pace()
        self._groups: I64 = np.full(self.n_users, -1)
        self._asked_in = np.full(self.n_users, -1, np.int64)  # the last round in which each client was asked
        self._brought: int | None = None  # message received by the client that is about to answer
        self._weight = 1.0

    def _new_pace(self) -> RoundPolicy:
        options = self.options
        if isinstance(options.aggregation, BufferedOptions):
            return BufferedRounds(options.aggregation)
        return DeadlineRounds(options.round, self._n_asked) if options.round else ClockedRounds(self._n_asked)

    @property
    def sets_own_wakes(self) -> bool:
        """Whether rounds do not follow the clock, or the weights of answers differ."""
        return not (isinstance(self._pace, ClockedRounds) and self.options.aggregation.plain)

    @property
    def role_behaviours(self) -> Sequence[Behaviour]:
        """Roles of clients and coordinator."""
        mixing = self.options.aggregation.mixing
        on_wake = (Op.PUSH,) if mixing is None else (Op.MIX, Op.PUSH)
        return [
            Behaviour(on_wake=(), on_receive=(Op.ADOPT, Op.TRAIN, Op.PUSH)),
            Behaviour(on_wake=on_wake, on_receive=(Op.POOL,), mixing=mixing or 1.0),
        ]

    @property
    def wakes(self) -> int:
        """Number of rounds or slices, plus a last wake that only merges if the options request it."""
        return self._pushes + self.options.merge_last

    @property
    def _pushes(self) -> int:
        return self.options.rounds * self.wakes_per_round

    @property
    def wakes_per_round(self) -> int:
        """One, or the number of slices, plus the wake that closes an epoch."""
        return self._n_slices + self.options.close_epochs

    @property
    def _n_slices(self) -> int:
        return 1 if self.options.slice is None else -(-self.n_users // self.options.slice)

    @property
    def ends_epoch_with_extra_wake(self) -> bool:
        """The option `close_epochs`."""
        return self.options.close_epochs

    def _closes(self, number: int) -> bool:
        """Return whether wake `number` closes an epoch."""
        return self.options.close_epochs and number % self.wakes_per_round == self._n_slices

    @property
    def horizon(self) -> float:
        """The clock's horizon, or the time if every round is given up."""
        return (
            super().horizon if self._pace.max_duration is None else 1.0 + self.wakes * self._pace.max_duration
        )

    @property
    def _n_asked(self) -> int:
        return self.options.slice or max(1, round(self.options.participation * self.n_users))

    @property
    def max_messages_per_wake(self) -> int:
        """Number of models sent and answers to them."""
        return 2 * self._n_asked

    @property
    def depends_on_values(self) -> bool:
        """Whether clients are chosen by groups, which are found by their uploads."""
        return self.options.choose == "proportional"

    def receive_values(self, receiver: I64, sender: I64, found: F32) -> None:
        """Receive the groups (`sender`) of some clients (`receiver`); an empty list means no change."""
        self._groups[receiver] = sender

    @property
    def whole_user_table(self) -> bool:
        """Whether the option `user_table` is ``averaged``."""
        return self.options.user_table == "averaged"

    @classmethod
    def mode_of(cls, options: FedAvgOptions) -> str:
        """Return the mode that the option `client_model` selects."""
        return "client-updates" if options.client_model == "none" else super().mode_of(options)

    @property
    def uploads_gradients(self) -> bool:
        """Whether the option `upload` is ``gradients``."""
        return self.options.upload == "gradients"

    def merge_weights(self, n_positives: I64) -> F64:
        """Return the weights of the rule; 0 for clients without data, and for the coordinator."""
        return np.append(make_aggregator(self.options.merge).weights(n_positives) * (n_positives > 0), 0.0)

    def inbox(self) -> InboxConfig | None:
        """Return the rule if it needs more than weights, or if answers are updates, are checked, or go to a server."""
        options = self.options
        looked_at = (
            options.client_model == "none" or options.aggregation.invalid == "discard" or options.server
        )
        if make_aggregator(options.merge).streaming and not looked_at:
            return None
        return self._answers_inbox()

    def _answers_inbox(self) -> InboxConfig:
        rule, aggregation, n = self.options.merge, self.options.aggregation, self._n_asked
        together = aggregation.buffer if isinstance(aggregation, BufferedOptions) else n
        name = registered_name(rule)
        return InboxConfig(name, lambda: make_aggregator(rule), None, n, together, aggregation.invalid)

    def sums_inbox(self) -> InboxConfig:
        """Return the rule, unless an option weighs, waits for or discards single answers.

        Raises
        ------
        ScenarioError
        """
        options, aggregation = self.options, self.options.aggregation
        late = options.round is not None and options.round.late == "count"
        for unfit, problem in (
            (
                isinstance(aggregation, BufferedOptions),
                "aggregation.name: found 'buffered', but masks only cancel among clients that were requested "
                "together; set it to synchronous",
            ),
            (
                not aggregation.plain,
                "aggregation: found staleness or mixing, but a version is the sum of one round; remove both",
            ),
            (
                aggregation.invalid == "discard",
                "aggregation.invalid: found 'discard', but no single answer can be checked; set it to fatal",
            ),
            (
                late,
                "round.late: found 'count', but the masks of a late answer cancel in no sum; set it to discard",
            ),
        ):
            if unfit:
                raise ScenarioError(f"protocol.{problem}, or set coordinator.sees to updates or final")
        return self._answers_inbox()

    def server(self) -> Server | None:
        """Return the server that the options name."""
        return None if self.options.server is None else make_server(self.options.server)

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Return the chosen clients, in order of id: all, a slice of them, or a uniform sample."""
        number = self._n_wakes
        self._n_wakes = number + 1
        if number == self._pushes:  # only merge
            self._brought = None
            return ()
        count = self._pace.count_clients_to_ask(now)
        chosen = self._choose(number, count, self._pace.busy_clients, now)
        self._brought = None
        if self.sets_own_wakes and not self._closes(number):  # else the next wake is due as before this one
            self._jobs.record_version(chosen)
            self._pace.begin_round(self._jobs.version, chosen, now)
        return chosen

    def _choose(self, number: int, count: int, busy: Collection[int], now: float) -> Sequence[int]:
        """Return the clients for wake `number`; a client's draws do not depend on which others are online."""
        if self.options.slice is not None:
            epoch, place = divmod(number, self.wakes_per_round)
            order = generator(self.seed, "slices", epoch).permutation(self.n_users)
            slice_: I64 = np.sort(order[place * self.options.slice :][: self.options.slice])
            if self.options.ask == "online":
                slice_ = slice_[self.availability.online_at(now)[slice_]]
            return slice_.tolist()
        plain = self.options.choose == "uniform" and not self.options.pause
        if plain and self.options.ask == "all" and not isinstance(self._pace, BufferedRounds):
            if count == self.n_users:
                return range(self.n_users)
            draw = generator(self.seed, "participation", number)
            return np.sort(draw.choice(self.n_users, count, replace=False)).tolist()
        free = np.ones(self.n_users, np.bool_)
        free[list(busy)] = False
        if self.options.ask == "online":
            free &= self.availability.online_at(now)[: self.n_users]
        candidates = self._rested(np.flatnonzero(free), number, count)
        lots = uniforms(self.seed, number, candidates, ASKED)
        chosen = sample_proportionally(candidates, lots, self._groups, count)
        self._asked_in[chosen] = number
        return chosen.tolist()

    def _rested(self, candidates: I64, number: int, count: int) -> I64:
        """Return the rested clients, plus as many of the others as are needed, longest rest first."""
        last = self._asked_in[candidates]
        rested = (last < 0) | (number - last > self.options.pause)
        waiting = candidates[~rested][np.argsort(last[~rested], kind="stable")]
        lacking = max(0, count - int(rested.sum()))
        return np.sort(np.concatenate([candidates[rested], waiting[:lacking]]))

    def on_delivery(self, node: int, message: int, now: float) -> Sequence[int]:
        """Return the coordinator as receiver of a client's answer; the coordinator records answers."""
        if node < self.n_users:
            self._brought, self._weight = message, 1.0
            return (self.n_users,)
        if self.sets_own_wakes:
            self._weight = self._weigh(message, now)
        return ()

    def _weigh(self, message: int, now: float) -> float:
        """Return the weight factor of an answer: 0 for a copy, or a late answer that must not count."""
        answer = self._jobs.record_answer_arrived(message)
        if answer.is_copy or not self._pace.record_answer(answer, now):
            return 0.0
        return self.options.aggregation.staleness.weight(answer.staleness)

    def on_sent(self, first: int, receivers: Sequence[int]) -> None:
        """Record the tasks that messages carry."""
        if self._brought is None:
            self._jobs.record_tasks_sent(first, receivers)
        else:
            self._jobs.record_answers_sent(self._brought, first, len(receivers))

    @property
    def delivery_weight(self) -> float:
        """Factor of the latest delivery: the weight of an answer may be reduced."""
        return self._weight

    def next_wake(self, now: float) -> float | None:
        """Return the coordinator's next wake as currently planned."""
        return self._pace.next_wake(now)

    def predicted_fraction_heard(self, rounds: float) -> float | None:
        """Return the expected share of clients asked at least once, if only chance decides; otherwise None."""
        options = self.options
        by_chance = options.choose == "uniform" and not options.pause and options.ask == "all"
        if options.round or not by_chance or isinstance(self._pace, BufferedRounds):
            return None
        if options.slice is not None:
            return min(1.0, rounds)
        return float(1.0 - (1.0 - options.participation) ** rounds)

    def report(self) -> dict[str, Any]:
        """Return the statistics of rounds and answers."""
        if not self.sets_own_wakes:
            return {}
        tally, n = self._pace.tally, min(self._n_wakes, self._pushes)
        answers = tally.answers / max(n, 1)
        return {"rounds": {"n": n, "mean_answers": answers, "late": tally.late, "given_up": tally.given_up}}
