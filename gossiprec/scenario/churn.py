"""The section ``churn``: when nodes are away, and what becomes of their messages and models meanwhile."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from gossiprec.options import Options
from gossiprec.scenario.sections import Nodes
from gossiprec.scenario.times import PositiveTime, RandomTime, Time, UniformTime


class Who(Options):
    """The nodes that an entry is about."""

    nodes: Nodes = Field(default="all", description="all, {fraction: f}, or a list of node ids.")


class AlternatingSessions(Who):
    """Nodes come and go: a time online, a time offline, and so on, each drawn anew."""

    online: RandomTime = Field(description="Law of a time online.")
    offline: RandomTime = Field(description="Law of a time offline.")
    start: Literal["stationary", "online"] = Field(
        default="stationary",
        description="State at time 0: as after a long time, or online at the beginning of a session.",
    )

    @model_validator(mode="after")
    def _lasting(self) -> AlternatingSessions:
        for key in ("online", "offline"):
            law = getattr(self, key)
            if law.law == "constant" and law.value == 0:
                raise ValueError(f"found {key} of no time at all; it must last, or leave the entry out")
            if law.law == "trace" and law.order == "sequence":
                raise ValueError(f"found {key} in the order of a file; write order: random")
        return self


class PeriodicSessions(Who):
    """Nodes are offline in the same part of every period, as phones are at night."""

    period: PositiveTime = Field(description="Length of a day.")
    offline_from: Time = Field(description="Time of the day at which nodes go.")
    offline_until: PositiveTime = Field(description="Time of the day at which they come.")
    jitter: Time = Field(
        default=0.0, description="Each going and coming is earlier or later by up to so much."
    )

    @model_validator(mode="after")
    def _within_a_day(self) -> PeriodicSessions:
        away = self.offline_until - self.offline_from
        if not 0.0 < away < self.period or self.offline_until > self.period:
            raise ValueError(
                f"found offline from {self.offline_from:g} until {self.offline_until:g} in a period of "
                f"{self.period:g}; must be 0 <= from < until <= period, and not the whole period"
            )
        if 2.0 * self.jitter >= min(away, self.period - away):
            raise ValueError(
                f"found jitter {self.jitter:g}, must be below half of the time away ({away:g}) and of the time there "
                f"({self.period - away:g})"
            )
        return self


class TraceSessions(Options):
    """Nodes come and go as a file says."""

    trace: str = Field(
        min_length=1, description="csv file with the header node,time,online (0 or 1) or node,from,until."
    )
    end: Literal["repeat", "hold", "refuse"] = Field(
        default="refuse",
        description="Where the run is longer than the file: begin again, keep the last state, or no run.",
    )


def _kind_of_sessions(raw: Any) -> str:
    def has(key: str) -> bool:
        return key in raw if isinstance(raw, dict) else hasattr(raw, key)

    if has("trace"):
        return "TraceSessions"
    return "PeriodicSessions" if has("period") else "AlternatingSessions"


Sessions: TypeAlias = Annotated[
    Annotated[AlternatingSessions, Tag("AlternatingSessions")]
    | Annotated[PeriodicSessions, Tag("PeriodicSessions")]
    | Annotated[TraceSessions, Tag("TraceSessions")],
    Discriminator(_kind_of_sessions),
]


class ForGood(Options):
    """Nodes that join, or leave, once and for good."""

    nodes: Nodes = Field(description="{fraction: f}, or a list of node ids.")
    at: Time | UniformTime = Field(description="When: a time, or {law: uniform, low: l, high: h}.")


class Churn(Options):
    """When nodes are away, and what becomes of their messages and models meanwhile. Without it nobody ever is."""

    sessions: tuple[Sessions, ...] = Field(
        default=(), description="Who comes and goes, and when; one entry or a list."
    )
    join: tuple[ForGood, ...] = Field(default=(), description="Nodes that are not there from the start.")
    leave: tuple[ForGood, ...] = Field(default=(), description="Nodes that leave for good.")
    messages: Literal["lost", "held"] = Field(
        default="lost", description="What becomes of messages that arrive while their receiver is away."
    )

    model: Literal["kept", "reset"] = Field(
        default="kept", description="What a node comes back with: the model it had, or its first one."
    )

    @field_validator("sessions", "join", "leave", mode="before")
    @classmethod
    def _listed(cls, raw: Any) -> Any:
        return (raw,) if isinstance(raw, dict) else raw

    @property
    def plain(self) -> bool:
        """Whether nobody is ever away."""
        return not (self.sessions or self.join or self.leave)
