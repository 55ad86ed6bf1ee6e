"""The sections ``network`` and ``churn``, and the distributions of random times that both use.

``network`` holds delays, losses and bandwidth of messages, and computation time; ``churn`` holds offline periods of
nodes, and the handling of their messages and models.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options, Problem, RegisteredName, registered_name, unknown_nodes
from gossiprec.network.sessions import SESSION_FORMATS
from gossiprec.network.sim.clock import RateUnit, TimeUnit
from gossiprec.scenario.sections import NodeIds, Nodes

LONGEST = 1e6
"""Longest time that a scenario may have, in mean wake periods."""
Time: TypeAlias = Annotated[float, Field(ge=0, le=LONGEST)]
PositiveTime: TypeAlias = Annotated[float, Field(gt=0, le=LONGEST)]


class ConstantTime(Options):
    """Always the same."""

    law: Literal["constant"]
    value: Time
    """The time, in mean wake periods."""


def _require_order(span: Any) -> Any:
    if span.low > span.high:
        raise ValueError(f"found low {span.low:g} above high {span.high:g}; swap them")
    return span


class UniformTime(Options):
    """Uniformly distributed between two bounds."""

    law: Literal["uniform"]
    low: Time = 0.0
    """Shortest time."""
    high: PositiveTime
    """Longest time."""

    _ordered = model_validator(mode="after")(_require_order)


class ExponentialTime(Options):
    """Exponentially distributed: memoryless."""

    law: Literal["exponential"]
    mean: PositiveTime
    """Mean time."""


class LognormalTime(Options):
    """A normally distributed logarithm: most times near the median, a few much longer."""

    law: Literal["lognormal"]
    median: PositiveTime
    """Median: half of the times are shorter."""
    sigma: Annotated[float, Field(gt=0, le=10)]
    """Standard deviation of the natural logarithm."""


class WeibullTime(Options):
    """``P(T > t) = exp(-(t / scale)^shape)``; a shape below 1 gives many short times and a few very long ones."""

    law: Literal["weibull"]
    scale: PositiveTime
    """Scale: 63 % of the times are shorter."""
    shape: Annotated[float, Field(ge=0.1, le=20)]
    """Shape; 1 is the exponential distribution."""


class TraceTime(Options):
    """Measured times from a file."""

    law: Literal["trace"]
    path: str = Field(min_length=1)
    """Text file with one time per line, or a CSV file with a header."""
    column: str | None = None
    """Column of the CSV file, named as in the header."""
    order: Literal["random", "sequence"] = "random"
    """random: drawn with replacement; sequence: each node takes the times one after the other."""
    end: Literal["repeat", "hold", "refuse"] = "repeat"
    """for sequence, after the last time: start over, keep the last time, or refuse the run."""


RandomTime: TypeAlias = Annotated[
    ConstantTime | UniformTime | ExponentialTime | LognormalTime | WeibullTime | TraceTime,
    Field(discriminator="law"),
]


class RandomLatency(Options):
    """A latency that is drawn."""

    per: Literal["message", "node", "pair"] = "message"
    """Draw for each message, once for each sender, or once for each pair."""


class ConstantLatency(Options):
    """Every message has the same latency."""

    law: Literal["constant"] = "constant"
    value: Time = 0.0
    """Delay of a message, in mean wake periods."""


class UniformLatency(UniformTime, RandomLatency):
    """Latencies are uniformly distributed between two bounds."""


class ExponentialLatency(ExponentialTime, RandomLatency):
    """Latencies are independent and exponentially distributed."""


class LognormalLatency(LognormalTime, RandomLatency):
    """Latencies have a normally distributed logarithm."""


class WeibullLatency(WeibullTime, RandomLatency):
    """Latencies follow a Weibull distribution."""


class PairsLatency(Options):
    """A matrix of latencies, sender by receiver."""

    law: Literal["pairs"]
    path: str = Field(min_length=1)
    """A .npy or .csv file of n x n numbers; the diagonal is ignored."""


class GeographicLatency(Options):
    """A latency that grows with the great-circle distance."""

    law: Literal["geographic"]
    coordinates: str = Field(default="random", min_length=1)
    """random: uniform on the globe; or a CSV file with the header node,latitude,longitude."""
    speed_km: Annotated[float, Field(ge=0.1)]
    """Kilometres per mean wake period."""
    base: Time = 0.0
    """Constant added to the distance-based latency."""


class SitesLatency(Options):
    """A matrix of latencies between sites, onto which nodes are drawn."""

    law: Literal["site-pairs"] = "site-pairs"
    sites: str = Field(min_length=1)
    """A .npy or .csv file of n x n numbers for any n, sender by receiver; nodes are spread evenly over the sites."""
    unit: TimeUnit
    """Unit of the numbers: ms, s, min, h or day, which need seconds_per_wake; or wakes."""
    round_trip: bool = False
    """The numbers are round-trip times: a message takes half of them."""
    missing: Literal["refuse", "fill"] = "refuse"
    """For negative cells and nan: refuse them; or fill in the opposite direction or else the median of the row."""


Latency: TypeAlias = Annotated[
    ConstantLatency
    | UniformLatency
    | ExponentialLatency
    | LognormalLatency
    | WeibullLatency
    | PairsLatency
    | GeographicLatency
    | SitesLatency
    | TraceTime,
    Field(discriminator="law"),
]


Rate: TypeAlias = Annotated[float, Field(ge=1e-3, le=1e15)]


class UniformRate(Options):
    """Rates are uniformly distributed between two bounds."""

    law: Literal["uniform"]
    low: Rate
    """Lowest rate."""
    high: Rate
    """Highest rate."""

    _ordered = model_validator(mode="after")(_require_order)


class LognormalRate(Options):
    """Rates have a normally distributed logarithm."""

    law: Literal["lognormal"]
    median: Rate
    """Median: half of the nodes are slower."""
    sigma: Annotated[float, Field(gt=0, le=10)]
    """Standard deviation of the natural logarithm."""


class FileRate(Options):
    """Each node has a rate from a file."""

    law: Literal["file"]
    path: str = Field(min_length=1)
    """Text file with one rate per line, in order of node ids."""


class TableRate(Options):
    """Each node has the rate of a row of a table, onto which nodes are drawn."""

    law: Literal["table-rows"] = "table-rows"
    table: str = Field(min_length=1)
    """CSV file with a header; nodes are spread evenly over its rows. Tables of the same length give a node one row."""
    column: str
    """Column of the rates, named as in the header."""
    unit: RateUnit
    """Unit of the rates: B/s, kB/s, MB/s, bit/s, kbit/s or Mbit/s, which need seconds_per_wake; or B/wake."""


Rates: TypeAlias = (
    Rate | Annotated[UniformRate | LognormalRate | FileRate | TableRate, Field(discriminator="law")]
)


def _with_law(raw: Any, key: str, law: str) -> Any:
    """Return options with the distribution that one of their keys implies; none is named like a key, for messages."""
    return {"law": law, **raw} if isinstance(raw, dict) and key in raw else raw


class Bandwidth(Options):
    """Bytes per mean wake period that a node sends and receives, shared fairly by its messages."""

    sharing: ClassVar[str] = "fair-share"
    """Registered name of the sharing."""
    up: Rates | None = None
    """Upload rate: a number, or a distribution over nodes; null: no limit."""
    down: Rates | None = None
    """Download rate."""
    coordinator: Rate | None = None
    """Both rates of a coordinator; null: no limit."""

    @field_validator("up", "down", mode="before")
    @classmethod
    def _law(cls, rates: Any) -> Any:
        return _with_law(rates, "table", "table-rows")

    @property
    def is_limited(self) -> bool:
        """Whether any rate is limited."""
        return any(rate is not None for rate in (self.up, self.down, self.coordinator))


class Reordering(Options):
    """Some messages are held back, so that later ones overtake them."""

    share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Probability that a message is delayed."""
    delay: Time = 0.0
    """Additional delay of a reordered message."""


class PartitionOptions(Options):
    """A window of virtual time in which groups of nodes cannot reach one another."""

    begin: Time = Field(alias="from")
    """Beginning."""
    until: PositiveTime
    """End."""
    groups: tuple[NodeIds, ...] | None = Field(default=None, min_length=1)
    """Lists of node ids; nodes in no list form one more group."""
    parts: Annotated[int, Field(ge=2, le=LARGEST)] | None = None
    """Number of random groups of equal size, instead of groups."""

    @model_validator(mode="after")
    def _whole(self) -> PartitionOptions:
        if self.begin >= self.until:
            raise ValueError(f"found from {self.begin:g}, but the window ends at {self.until:g}; swap them")
        if (self.groups is None) == (self.parts is None):
            raise ValueError(
                "requires either groups (lists of node ids) or parts (a number of random groups)"
            )
        named = sorted(node for group in self.groups or () for node in group)
        twice = sorted({node for node, after in itertools.pairwise(named) if node == after})
        if twice:
            raise ValueError(f"found node {twice[0]} twice; expected each node in one group")
        return self

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield nodes that do not exist, and more parts than nodes."""
        for number, group in enumerate(self.groups or ()):
            for path, message in unknown_nodes("nodes", group, n_users):
                yield ("groups", number, *path), message
        if (self.parts or 0) > n_users:
            yield ("parts",), f"found {self.parts}, but there are only {n_users} nodes"


class Compute(Options):
    """Duration of a local update."""

    time: RandomTime
    """Distribution of the time of one local update."""
    per: Literal["update", "node"] = "update"
    """Draw for each local update, or once for each node: a slow node stays slow."""
    per_sample: bool = False
    """`time` is per training sample; an update takes that time multiplied by its number of samples."""


class NetworkOptions(Options):
    """Delays, losses and bandwidth of messages between sender and receiver."""

    latency: Latency = ConstantLatency()
    """Delay of a message, in mean wake periods."""
    bandwidth: Bandwidth = Bandwidth()
    """Bytes per mean wake period; messages share it fairly at both ends."""
    loss: float = Field(default=0.0, ge=0, lt=1)
    """Probability that a message never arrives."""
    duplication: float = Field(default=0.0, ge=0, lt=1)
    """Probability that a message is sent twice."""
    reordering: Reordering = Reordering()
    """Reordering: messages that are delayed."""
    in_order: bool = False
    """Messages from one node to another keep their order."""
    partitions: tuple[PartitionOptions, ...] = ()
    """Time windows in which groups are disconnected from each other."""
    compute: Compute | None = None
    """Time of a local update; null: none."""

    @property
    def takes_no_time(self) -> bool:
        """Whether messages and local updates take no time."""
        latency = self.latency
        instant = isinstance(latency, ConstantLatency) and latency.value == 0.0
        return instant and self.compute is None and not self.bandwidth.is_limited

    @field_validator("latency", mode="before")
    @classmethod
    def _law(cls, latency: object) -> object:
        if isinstance(latency, str | float | int):
            raise ValueError(
                f"found {latency!r}; expected a distribution, such as {{law: constant, value: 0.1}}; times "
                "are in mean wake periods: if nodes wake once per second on average, 0.1 is 100 ms"
            )
        return _with_law(latency, "sites", "site-pairs")

    @field_validator("partitions")
    @classmethod
    def _few(cls, partitions: tuple[PartitionOptions, ...]) -> tuple[PartitionOptions, ...]:
        if len(partitions) > 1000:
            raise ValueError(f"found {len(partitions)} windows; expected up to 1000; merge some")
        return partitions


class NodeSelection(Options):
    """The nodes to which an entry applies."""

    nodes: Nodes = "all"
    """all, {fraction: f}, or a list of node ids."""

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield nodes that do not exist."""
        return unknown_nodes("nodes", self.nodes, n_users)


class AlternatingSessions(NodeSelection):
    """Nodes alternate between online and offline periods, each drawn independently."""

    online: RandomTime
    """Distribution of the length of an online session."""
    offline: RandomTime
    """Distribution of the length of an offline period."""
    start: Literal["stationary", "online"] = "stationary"
    """State at time 0: stationary, or online at the beginning of a session."""

    @model_validator(mode="after")
    def _lasting(self) -> AlternatingSessions:
        for key in ("online", "offline"):
            distribution = getattr(self, key)
            if distribution.law == "constant" and distribution.value == 0:
                raise ValueError(f"found {key} of length 0; expected a positive length; or remove the entry")
            if distribution.law == "trace" and distribution.order == "sequence":
                raise ValueError(f"found {key} with order: sequence; set order: random")
        return self


class PeriodicSessions(NodeSelection):
    """Nodes are offline in the same part of every period, as phones are at night."""

    period: PositiveTime
    """Length of a day."""
    offline_from: Time
    """Time of the day at which nodes go offline."""
    offline_until: PositiveTime
    """Time of the day at which nodes come back online."""
    jitter: Time = 0.0
    """Maximum random shift of each start and end of a session."""

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

    trace: str = Field(min_length=1)
    """CSV file with the header node,time,online (0 or 1) or node,from,until."""
    end: Literal["repeat", "hold", "refuse"] = "refuse"
    """If the run is longer than the file: repeat the file, keep the last state, or refuse the run."""


class DeviceSessions(NodeSelection):
    """Nodes come and go like the devices that were recorded in a file, and that are drawn onto them."""

    trace: str = Field(min_length=1)
    """File with recordings of devices; it may be compressed as .gz."""
    format: Annotated[str | dict[str, Any], RegisteredName(SESSION_FORMATS)]
    """Format of the file: peersim, fedscale or intervals, or one of a plug-in."""
    unit: TimeUnit | None = None
    """Unit of the file's times: ms, s, min, h, day or wakes; default: as the format says."""
    reuse: bool = False
    """Draw recordings again if there are fewer than nodes, all equally often."""
    end: Literal["repeat", "hold", "refuse"] = "refuse"
    """After the end of a recording: repeat it, keep its last state, or draw only those as long as the run."""

    @model_validator(mode="before")
    @classmethod
    def _known_unit(cls, raw: Any) -> Any:
        """Fill in the unit that the format fixes."""
        if not isinstance(raw, dict) or not isinstance(raw.get("format"), str | dict):
            return raw
        try:
            name = registered_name(raw["format"])
            fixed = SESSION_FORMATS[name].unit
        except (ScenarioError, KeyError):
            return raw  # reported for the key itself
        found = raw.get("unit")
        if found is None and fixed is None:
            raise ValueError(
                f"unit is missing: the format {name} does not fix it; expected ms, s, min, h, day or wakes"
            )
        if found is not None and fixed is not None and found != fixed:
            raise ValueError(
                f"found unit {found!r}, but times of the format {name} are in {fixed}; remove unit"
            )
        return {**raw, "unit": found or fixed}


def _kind_of_sessions(raw: Any) -> str:
    def has(key: str) -> bool:
        return key in raw if isinstance(raw, dict) else hasattr(raw, key)

    if has("format"):
        return "DeviceSessions"
    if has("trace"):
        return "TraceSessions"
    return "PeriodicSessions" if has("period") else "AlternatingSessions"


Sessions: TypeAlias = Annotated[
    Annotated[AlternatingSessions, Tag("AlternatingSessions")]
    | Annotated[PeriodicSessions, Tag("PeriodicSessions")]
    | Annotated[TraceSessions, Tag("TraceSessions")]
    | Annotated[DeviceSessions, Tag("DeviceSessions")],
    Discriminator(_kind_of_sessions),
]


class PermanentChange(NodeSelection):
    """Nodes that join, or leave, once and permanently."""

    nodes: Nodes
    """{fraction: f}, or a list of node ids."""
    at: Time | UniformTime
    """Time of the event, or {law: uniform, low: l, high: h}."""


class Churn(Options):
    """Offline periods of nodes, and the handling of their messages and models. Without it all nodes are online."""

    sessions: tuple[Sessions, ...] = ()
    """Online sessions of nodes; one entry or a list."""
    join: tuple[PermanentChange, ...] = ()
    """Nodes that join after the start."""
    leave: tuple[PermanentChange, ...] = ()
    """Nodes that leave permanently."""
    messages: Literal["lost", "held"] = "lost"
    """How to treat messages that arrive while the receiver is offline."""

    model: Literal["kept", "reset"] = "kept"
    """Model of a node that comes back online: its last one, or its initial one."""

    @field_validator("sessions", "join", "leave", mode="before")
    @classmethod
    def _listed(cls, raw: Any) -> Any:
        return (raw,) if isinstance(raw, dict) else raw

    @property
    def is_always_online(self) -> bool:
        """Whether all nodes are always online."""
        return not (self.sessions or self.join or self.leave)
