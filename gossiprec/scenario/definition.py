"""The typed scenario: what :func:`gossiprec.scenario.load_scenario` returns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, SerializeAsAny, ValidationError, model_validator

from gossiprec.base.features import FeatureFile
from gossiprec.base.options import LARGEST, Options, Problem, unknown_nodes
from gossiprec.scenario.network import Churn, NetworkOptions
from gossiprec.scenario.problems import Problems, SourceMap, add_validation_problems
from gossiprec.scenario.sections import (
    CheckpointOptions,
    CoordinatorOptions,
    EvaluateOptions,
    ExecutorOptions,
    LeastPopular,
    Nodes,
    OptionChange,
    StopOptions,
    Targets,
    TrainingOptions,
    unknown_targets,
)

Slug = Annotated[
    str,
    Field(
        max_length=64,
        pattern=r"^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$",
        description="Name of the run directory: letters and digits, joined by single '-', '_' or '.'.",
    ),
]


class RegisteredChoice(Options):
    """A registered thing and its options.

    Attributes
    ----------
    name : str
        The name under which it is registered.
    options : Options
        An instance of the thing's own option set.
    """

    name: str
    options: SerializeAsAny[Options]

    def to_plain_data(self) -> dict[str, Any]:
        """Return the section in the form of a scenario file: options next to the name."""
        own = {key: _plain(getattr(self, key)) for key in type(self).own_keys()}
        return {"name": self.name, **own, **_plain(self.options)}

    @classmethod
    def own_keys(cls) -> list[str]:
        """Return the keys of the section that are not options of the thing it names."""
        return [key for key in cls.model_fields if key not in ("name", "options")]


UserId = (
    Annotated[int, Field(ge=0, le=LARGEST, strict=True)] | Annotated[str, Field(min_length=1, strict=True)]
)
"""A user: a number is a node id, a text is a name in the data."""


class DatasetChoice(RegisteredChoice):
    """The data set, how it is split, and how much of it is used."""

    split: RegisteredChoice
    limit_users: int | None = Field(default=None, ge=2, le=LARGEST)
    """Use only the first users of the data set."""
    user_features: FeatureFile | None = None
    """A table of users' attributes, {path: FILE}, in place of the data set's own."""
    item_features: FeatureFile | None = None
    """A table of items' attributes, like `user_features`."""
    without: tuple[UserId, ...] = ()
    """Users that the run has no data of, by node id or by name in the data ('196'); their nodes only relay."""


class PolicyChoice(RegisteredChoice):
    """A defence and the nodes that use it."""

    nodes: Nodes = "all"
    """all, {fraction: f}, or a list of node ids."""

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield nodes that do not exist."""
        return unknown_nodes("nodes", self.nodes, n_users)


class AttackerChoice(RegisteredChoice):
    """A poisoning method, the number of nodes that use it, and their goal."""

    fraction: float | None = Field(default=None, ge=0, le=1)
    """Number of poisoners as a fraction of all users, rounded down; 0: none (baseline)."""
    number: int | None = Field(default=None, ge=0, le=10**6)
    """Number of poisoners."""
    targets: Targets = LeastPopular(least_popular=1)
    """Items that the poisoners promote: ids, or {least_popular: n} of training and test items together."""
    aim: Literal["promote", "demote"] = "promote"
    """Whether the targets are to be shown to more users, or to fewer."""
    start: int = Field(default=1, ge=1, le=LARGEST)
    """First round of poisoning; before it the nodes send unmodified models."""
    scale: Literal["gradient", "matched"] = "gradient"
    """gradient: learning rate times gradient; matched: rows change as much as an average client's."""
    boost: float = Field(default=1.0, gt=0, le=1e9)
    """Factor applied to the poisoned update."""
    clip: float | None = Field(default=None, gt=0)
    """Largest norm of the delta of an item row; null: no limit."""
    clip_shared: float | None = Field(default=None, gt=0)
    """Largest norm of the delta of the shared weights; null: no limit."""
    placement: Literal["random", "degree", "betweenness"] | None = None
    """Places in a fixed graph: drawn, or the most central ones; null: the last ones, by node id."""
    edges: int | None = Field(default=None, ge=1, le=10**6)
    """Links to users of Sybils outside the graph; null: poisoners are nodes of the graph."""
    linked: bool = False
    """Whether these Sybils are also linked with one another, each with all; some may then have no link to a user."""

    @model_validator(mode="after")
    def _counted_once(self) -> AttackerChoice:
        if (self.fraction is None) == (self.number is None):
            found = "neither" if self.fraction is None else "both"
            raise ValueError(f"found {found} of fraction and number; expected exactly one of them")
        if self.placement and self.edges:
            raise ValueError(
                "found both placement and edges, but Sybils with attack edges have no place in the graph of the "
                "others; remove one of them"
            )
        if self.linked and not self.edges:
            raise ValueError(
                "found linked without edges, but only Sybils are linked with one another; set edges, or remove linked"
            )
        return self

    def count(self, n_users: int) -> int:
        """Return the number of poisoners; of a fraction of the users, rounded down up to floating-point error."""
        return int((self.fraction or 0.0) * n_users + 1e-9) if self.number is None else self.number

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield targets that do not exist, a fraction of no poisoner, and more or fewer edges than possible."""
        yield from unknown_targets(self.targets, n_items)
        count, edges = self.count(n_users), self.edges
        if self.fraction and count < 1:
            unit = 10.0 ** (math.floor(math.log10(1.0 / n_users)) - 1)
            least = math.ceil(1.0 / n_users / unit - 1e-9) * unit  # one user, rounded up to two digits
            yield (
                ("fraction",),
                f"found {self.fraction}, which gives no poisoner for {n_users} users; raise it to {least:.2g} or more, "
                "or set number: 1 instead",
            )
        if edges is not None and edges > n_users:
            found = f"there are only {n_users} users, each with at most one attack edge; lower it"
            yield ("edges",), f"found {edges}, but {found}"
        elif edges is not None and edges < count and not self.linked:
            yield (
                ("edges",),
                f"found {edges} for {count} poisoners; expected an edge for each; raise it, use fewer poisoners, or "
                "link them (linked: true)",
            )


class AdversaryChoice(RegisteredChoice):
    """An active adversary and the nodes of users that it has taken over."""

    nodes: Nodes
    """all, {fraction: f}, or a list of node ids."""

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield nodes that do not exist."""
        hint = "; a coordinator or head acts by protocol.server"
        return unknown_nodes("nodes", self.nodes, n_users, hint)


class ScenarioHeader(Options):
    """The plain values at the top of a scenario."""

    name: Slug
    seed: int = Field(default=1, ge=0, le=2**63 - 1)
    """Seed of all random draws."""
    plots: bool = True
    """Draw figures at the end of a run."""
    seconds_per_wake: float | None = Field(default=None, ge=1e-6, le=1e9)
    """Seconds of one unit of virtual time (mean wake period); links it with files in ms, s, min, h or day."""
    stop: StopOptions | None = None
    """Rule by which the run ends before its last report, such as {measure: val_recall@20, patience: 5}; null: none."""
    changes: tuple[OptionChange, ...] = ()
    """Changes of training during the run, such as {at: 50, set: {training.learning_rate: 0.001}}."""


class Scenario(ScenarioHeader):
    """A complete, typed description of a run.

    Attributes
    ----------
    name, seed, plots, seconds_per_wake, stop, changes
        See :class:`ScenarioHeader`.
    dataset : DatasetChoice
    model, protocol : RegisteredChoice
    recommender : RegisteredChoice or None
        Addition to the model, if any.
    training, network, churn, coordinator, evaluate, executor, checkpoint
        Fixed sections, see :mod:`gossiprec.scenario.sections`.
    policies : tuple of PolicyChoice
    attackers : tuple of AttackerChoice
        Nodes without data, in addition to the users' nodes.
    adversaries : tuple of AdversaryChoice
        Attackers that have taken over nodes of users.
    observers : tuple of RegisteredChoice
        Observers as written; lists of values in one mean one observer per combination.
    """

    dataset: DatasetChoice
    model: RegisteredChoice
    training: TrainingOptions = TrainingOptions()
    protocol: RegisteredChoice
    recommender: RegisteredChoice | None = None
    network: NetworkOptions = NetworkOptions()
    churn: Churn = Churn()
    policies: tuple[PolicyChoice, ...] = ()
    attackers: tuple[AttackerChoice, ...] = ()
    adversaries: tuple[AdversaryChoice, ...] = ()
    observers: tuple[RegisteredChoice, ...] = ()
    coordinator: CoordinatorOptions = CoordinatorOptions()
    evaluate: EvaluateOptions = EvaluateOptions()
    executor: ExecutorOptions = ExecutorOptions()
    checkpoint: CheckpointOptions = CheckpointOptions()
    _source_map: SourceMap = PrivateAttr(default_factory=SourceMap)

    @property
    def source_map(self) -> SourceMap:
        """The origin of each value, for messages about it."""
        return self._source_map

    def with_source_map(self, source_map: SourceMap) -> Scenario:
        """Return the scenario with the origins of its values attached."""
        copy = self.model_copy()
        copy._source_map = source_map
        return copy

    def count_poisoners(self, n_users: int) -> int:
        """Return the number of nodes without data that the scenario adds to `n_users` users."""
        return sum(choice.count(n_users) for choice in self.attackers)

    def resolved(self) -> dict[str, Any]:
        """Return plain data with defaults filled in; loading it gives an equal scenario."""
        return {key: _plain(getattr(self, key)) for key in type(self).model_fields}

    def with_(self, **changes: Any) -> Scenario:
        """Return a copy with other values at the top level, such as ``with_(seed=2)``.

        Raises
        ------
        ScenarioError
            If a value is not allowed.
        """
        try:
            changed = Scenario.model_validate({**dict(self), **changes})
        except ValidationError as error:
            problems = Problems()
            add_validation_problems(error, Scenario, changes, (), problems)
            problems.raise_any(SourceMap())
            raise
        return changed.with_source_map(self._source_map)


FIXED: dict[str, type[Options]] = {
    "training": TrainingOptions,
    "network": NetworkOptions,
    "churn": Churn,
    "coordinator": CoordinatorOptions,
    "evaluate": EvaluateOptions,
    "executor": ExecutorOptions,
    "checkpoint": CheckpointOptions,
}
"""The sections that do not depend on the named data set, model or protocol."""


def _plain(value: Any) -> Any:
    if isinstance(value, RegisteredChoice):
        return value.to_plain_data()
    if isinstance(value, Options):
        return value.model_dump(mode="json", by_alias=True)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
