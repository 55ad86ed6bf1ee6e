"""Options of FedAvg: the clients that it asks, the end of a round, and the weight of an answer."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, PositiveFloat, model_validator

from gossiprec.base.options import LARGEST, Count, Fraction, Options
from gossiprec.rules.aggregators import Rule, reject_delta_rules
from gossiprec.rules.aggregators.base import Invalid
from gossiprec.rules.servers import ServerChoice

Late: TypeAlias = Literal["count", "discard"]
LONGEST = 1e6
"""Upper limit of time options, in units of virtual time."""
Duration = Annotated[float, Field(gt=0, le=LONGEST)]
"""An option in units of virtual time."""
PATIENCE = 10.0
"""Default of `give_up`, in units of virtual time or in deadlines."""


class RoundOptions(Options):
    """The end of a round. Without this section it lasts one unit of virtual time, however many have answered."""

    deadline: Duration | None = None
    """time after which a round ends if `minimum` clients have answered; null waits for all clients"""
    minimum: Fraction = 0.0
    """fraction of the asked clients that a round waits for after its deadline"""
    give_up: Duration | None = None
    """time after which a round always ends; null: ten times the deadline, or 10 without a deadline"""
    at_least: float | None = Field(default=None, ge=0, le=LONGEST)
    """minimum duration of a round, even if all clients have answered; null: 1, or the deadline if shorter"""
    late: Late = "count"
    """how to treat answers to an earlier round: count them in the round in which they arrive, or discard them"""

    @model_validator(mode="after")
    def _in_order(self) -> RoundOptions:
        if self.deadline is None and self.minimum:
            raise ValueError(f"found minimum {self.minimum} but no deadline; set deadline, or remove minimum")
        if self.deadline is not None and self.max_duration < self.deadline:
            raise ValueError(
                f"found give_up {self.give_up}, which comes before the deadline {self.deadline}; raise give_up"
            )
        end, name = (self.max_duration, "give_up") if self.deadline is None else (self.deadline, "deadline")
        if self.min_duration > end:
            raise ValueError(
                f"found at_least {self.at_least}, which is longer than {name} {end}; lower at_least"
            )
        return self

    @property
    def max_duration(self) -> float:
        """Time after which a round always ends."""
        return PATIENCE * (self.deadline or 1.0) if self.give_up is None else self.give_up

    @property
    def min_duration(self) -> float:
        """Minimum duration of a round."""
        return min(1.0, self.deadline or self.max_duration) if self.at_least is None else self.at_least


class StalenessOptions(Options):
    """Weight of an answer that is based on a model tau versions old.

    References
    ----------
    Xie, Koyejo, Gupta, "Asynchronous federated optimization" (FedAsync), OPT 2020, section 5.2; Nguyen et al. 2022
    use the polynomial weight with exponent 0.5.
    """

    law: Literal["constant", "polynomial"] = "constant"
    """constant: 1; polynomial: (1 + tau)^-exponent"""
    exponent: PositiveFloat = 0.5
    """exponent of the polynomial weight"""

    def weight(self, tau: int) -> float:
        """Return s(tau), in (0, 1]."""
        return 1.0 if self.law == "constant" else float((1.0 + tau) ** -self.exponent)


class _Aggregation(Options):
    staleness: StalenessOptions = StalenessOptions()
    """weight of an answer by the versions published since its client was asked"""
    mixing: float | None = Field(default=None, gt=0, le=1)
    """alpha: fraction of a new version that comes from full-weight answers, the rest from the old version; null: all
"""

    invalid: Invalid = "fatal"
    """answers with NaN or infinite values, if answers wait in an inbox: fatal ends the run, discard drops them"""

    @property
    def plain(self) -> bool:
        """Whether all answers weigh the same, and nothing of the old version is kept."""
        return self.staleness.law == "constant" and self.mixing is None


class SynchronousOptions(_Aggregation):
    """Clients are asked in rounds, all at the same time."""

    name: Literal["synchronous"] = "synchronous"


class BufferedOptions(_Aggregation):
    """Clients are asked one after the other; a version is published per `buffer` answers (FedBuff).

    References
    ----------
    Nguyen et al., "Federated learning with buffered asynchronous aggregation", AISTATS 2022.
    """

    name: Literal["buffered"]
    buffer: Count = 10
    """K: number of answers per version"""
    concurrency: Count
    """M: number of working clients after each version"""
    give_up: Duration = PATIENCE
    """time after which a client that has not answered is replaced"""
    late: Late = "count"
    """how to treat answers of replaced clients: count or discard"""

    @model_validator(mode="after")
    def _fills(self) -> BufferedOptions:
        if self.buffer > self.concurrency:
            raise ValueError(
                f"found buffer {self.buffer}, but concurrency {self.concurrency}: the working clients cannot "
                "fill the buffer; lower buffer or raise concurrency"
            )
        return self


Aggregation: TypeAlias = Annotated[SynchronousOptions | BufferedOptions, Field(discriminator="name")]


class FedAvgOptions(Options):
    """Options of FedAvg."""

    rounds: Count = 100
    """wakes of the coordinator; with slice, passes over all clients"""
    participation: float = Field(default=1.0, gt=0, le=1)
    """fraction of the clients asked in each round"""
    slice: Count | None = None
    """clients per slice; a round is then a global epoch that asks all clients once, in shuffled order, with one wake
    of the coordinator per slice"""
    close_epochs: bool = False
    """end an epoch of slices with one more wake of the coordinator, which asks no client, merges the answers of the
    last slice and takes the recommender's step at the end of an epoch, so that the report of the epoch includes
    both; false: the first wake of the next epoch does this, after the report"""
    user_table: Literal["own", "averaged"] = "own"
    """own: a client keeps its user row; averaged: all rows are sent and averaged (published code)"""
    client_model: Literal["own", "none"] = "own"
    """own: a client keeps a whole model; none: a client keeps only its user row and private weights, and answers
    with an update, the rows that it touched"""
    upload: Literal["changes", "gradients"] = "changes"
    """content of an update: the deltas made by training.optimizer, or the raw gradient of one step times
    -training.learning_rate; the user row is always trained by training.optimizer"""
    merge: Rule = "samples"
    """how answers are aggregated: samples or mean (a client's weight is its number of positives, or 1), or another
    aggregator such as median, or {name: krum, byzantine: 2}"""
    server: ServerChoice | None = None
    """server optimizer of the coordinator, applied between aggregating and pushing, such as momentum; null: none"""
    ask: Literal["all", "online"] = "all"
    """clients eligible for a round: all, or only those online at its start"""
    choose: Literal["uniform", "proportional"] = "uniform"
    """how clients are chosen: uniform; proportional: in proportion to the groups of similar clients that the
    recommender finds (uniform before it has found any)"""
    pause: int = Field(default=0, ge=0, le=LARGEST)
    """number of rounds in which an asked client is not asked again, unless too few others are left"""
    round: RoundOptions | None = None
    """when a round ends; null: after one unit of time"""
    aggregation: Aggregation = SynchronousOptions()
    """aggregation of answers"""
    merge_last: bool = False
    """true: after the last round the coordinator wakes once more, asks no client and merges the answers to its last
    push, and the last report covers that version; false: these answers stay unmerged if answers wait for the next wake
    (updates, a server, or a rule other than a weighted mean)"""

    @model_validator(mode="after")
    def _of_one_kind(self) -> FedAvgOptions:
        if self.slice is not None and (
            self.participation != 1.0 or isinstance(self.aggregation, BufferedOptions)
        ):
            found = "participation" if self.participation != 1.0 else "buffered aggregation"
            raise ValueError(
                f"found slice and {found}, but slices ask all clients in turn; remove one of them"
            )
        if self.close_epochs and self.slice is None:
            raise ValueError(
                "found close_epochs but no slice, although an epoch is a pass over slices of the clients; "
                "set slice, or remove close_epochs"
            )
        if self.close_epochs and self.merge_last:
            raise ValueError(
                "found close_epochs and merge_last, but the wake that closes the last epoch merges the last "
                "answers; remove merge_last"
            )
        if self.server is not None and self.aggregation.mixing is not None:
            raise ValueError(
                "found server and aggregation.mixing, but the server determines how the old version is "
                "kept; remove mixing"
            )
        if self.slice is not None and (self.choose != "uniform" or self.pause):
            found = "pause" if self.pause else "choose proportional"
            raise ValueError(
                f"found slice and {found}, but slices ask all clients in turn; remove one of them"
            )
        self._check_updates()
        if isinstance(self.aggregation, BufferedOptions):
            if self.round is not None:
                raise ValueError(
                    "found round, but buffered aggregation has no rounds; remove round (give_up and late "
                    "are options of aggregation)"
                )
            if self.participation != 1.0:
                raise ValueError(
                    f"found participation {self.participation}, but with buffered aggregation concurrency "
                    "sets the number of working clients; remove participation"
                )
        return self

    def _check_updates(self) -> None:
        if self.client_model == "own":
            reject_delta_rules(self.merge, "merge", "clients", "set client_model to none, or ")
            if self.upload == "gradients":
                raise ValueError(
                    "found upload gradients, but clients send whole models; set client_model to none, or "
                    "remove upload"
                )
            return
        if self.user_table == "averaged":
            raise ValueError(
                "found client_model none and user_table averaged, but a client without a model has only its "
                "own user row; set user_table to own"
            )
        if self.aggregation.mixing is not None:
            raise ValueError(
                "found client_model none and aggregation.mixing, but updates are added to the version "
                "without mixing; remove mixing"
            )
