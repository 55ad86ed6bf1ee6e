"""The section ``churn``: offline periods of nodes, and the handling of their messages and models."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from gossiprec.base.options import Options
from gossiprec.scenario.sections import Nodes
from gossiprec.scenario.time_options import PositiveTime, RandomTime, Time, UniformTime


class NodeSelection(Options):
    """The nodes to which an entry applies."""

    nodes: Nodes = Field(default="all", description="all, {fraction: f}, or a list of node ids.")


class AlternatingSessions(NodeSelection):
    """Nodes alternate between online and offline periods, each drawn independently."""

    online: RandomTime = Field(description="Distribution of a time online.")
    offline: RandomTime = Field(description="Distribution of a time offline.")
    start: Literal["stationary", "online"] = Field(
        default="stationary",
        description="State at time 0: stationary, or online at the beginning of a session.",
    )

    @model_validator(mode="after")
    def _lasting(self) -> AlternatingSessions:
        for key in ("online", "offline"):
            law = getattr(self, key)
            if law.law == "constant" and law.value == 0:
                raise ValueError(f"found {key} of length 0; expected a positive length; or remove the entry")
            if law.law == "trace" and law.order == "sequence":
                raise ValueError(f"found {key} with order: sequence; set order: random")
        return self


class PeriodicSessions(NodeSelection):
    """Nodes are offline in the same part of every period, as phones are at night."""

    period: PositiveTime = Field(description="Length of a day.")
    offline_from: Time = Field(description="Time of the day at which nodes go offline.")
    offline_until: PositiveTime = Field(description="Time of the day at which nodes come back online.")
    jitter: Time = Field(default=0.0, description="Maximum random shift of each start and end of a session.")

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
                f"found jitter {self.jitter:g}; expected less than half of the time offline ({away:g}) and "
                f"of the time online ({self.period - away:g})"
            )
        return self


class TraceSessions(Options):
    """Nodes come and go as recorded in a file."""

    trace: str = Field(
        min_length=1, description="CSV file with the header node,time,online (0 or 1) or node,from,until."
    )
    end: Literal["repeat", "hold", "refuse"] = Field(
        default="refuse",
        description="If the run is longer than the file: repeat the file, keep the last state, or refuse the run.",
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


class PermanentChange(Options):
    """Nodes that join, or leave, once and permanently."""

    nodes: Nodes = Field(description="{fraction: f}, or a list of node ids.")
    at: Time | UniformTime = Field(description="Time of the event, or {law: uniform, low: l, high: h}.")


class Churn(Options):
    """Offline periods of nodes, and the handling of their messages and models. Without it all nodes are online."""

    sessions: tuple[Sessions, ...] = Field(
        default=(), description="Online sessions of nodes; one entry or a list."
    )
    join: tuple[PermanentChange, ...] = Field(default=(), description="Nodes that join after the start.")
    leave: tuple[PermanentChange, ...] = Field(default=(), description="Nodes that leave permanently.")
    messages: Literal["lost", "held"] = Field(
        default="lost", description="How to treat messages that arrive while the receiver is offline."
    )

    model: Literal["kept", "reset"] = Field(
        default="kept",
        description="Model of a node that comes back online: its last one, or its initial one.",
    )

    @field_validator("sessions", "join", "leave", mode="before")
    @classmethod
    def _listed(cls, raw: Any) -> Any:
        return (raw,) if isinstance(raw, dict) else raw

    @property
    def plain(self) -> bool:
        """Whether all nodes are always online."""
        return not (self.sessions or self.join or self.leave)
