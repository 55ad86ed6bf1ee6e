"""The sections of a scenario that do not depend on the named data set, model or protocol."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from gossiprec.base.arrays import I64
from gossiprec.base.machine import usable_cores
from gossiprec.base.options import LARGEST, Options, Problem
from gossiprec.base.ragged import Ragged
from gossiprec.measures import TargetRanks
from gossiprec.measures.selectors import VALIDATED, baseline_metric_name, read_metric


class TrainingOptions(Options):
    """Training of a node's model on the node's own data in each local update.

    References
    ----------
    Defaults: Table 3 of the CDA paper, except `local_epochs` and `batch_size`; `betas` and `eps` are torch's.
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    """Its state stays on the node and is never sent."""
    learning_rate: float = Field(default=0.01, gt=0)
    """Step size of the optimizer."""
    batch_size: Annotated[int, Field(ge=1, le=LARGEST)] | Literal["full"] = 64
    """Samples (positives and negatives) per step; `full`: all samples of the epoch in one step."""
    local_epochs: int = Field(default=1, ge=1, le=10**6)
    """Epochs over the samples of a node per local update."""
    negatives: int = Field(default=4, ge=1, le=10**6)
    """Number of negatives drawn per positive."""
    negatives_drawn: Literal["each_update", "once"] = "each_update"
    """Draw negatives for each local update, or once per node."""
    positives_drawn: Literal["all", "by_user"] = "all"
    """Each positive once per pass, or (central) as many positives of users that are drawn uniformly."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """Decay rates of the first and second moments of Adam."""
    eps: float = Field(default=1e-8, gt=0)
    """Term of Adam that prevents division by zero."""


class NodeFraction(Options):
    """A part of all nodes, drawn at random from the scenario's seed."""

    fraction: float = Field(gt=0, le=1)
    """Fraction of all nodes."""


NodeIds: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=0, le=LARGEST)], ...], Field(min_length=1)]
Nodes: TypeAlias = Literal["all"] | NodeFraction | NodeIds


class LeastPopular(Options):
    """The items that the fewest users have."""

    least_popular: int = Field(ge=1, le=LARGEST)
    """Number of items; on ties those with lower ids."""

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield more items than there are."""
        if self.least_popular > n_items:
            yield ("least_popular",), f"found {self.least_popular}, but there are only {n_items} items"

    def items(self, parts: Sequence[Ragged], n_items: int) -> I64:
        """Return these items by the users who have them in some parts of a split, ascending."""
        popularity = np.bincount(np.concatenate([part.values for part in parts]), minlength=n_items)
        return np.sort(np.argsort(popularity, kind="stable")[: self.least_popular])


ItemIds: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=0, le=LARGEST)], ...], Field(min_length=1)]
Targets: TypeAlias = LeastPopular | ItemIds


def unknown_targets(targets: object, n_items: int) -> Iterator[Problem]:
    """Yield the item ids of an option ``targets`` that do not exist."""
    for index, item in enumerate(targets if isinstance(targets, tuple) else ()):
        if item >= n_items:
            yield ("targets", index), f"found item {item}, but item ids range from 0 to {n_items - 1}"


class ExtraReports(Options):
    """Reports that are more frequent for a while."""

    every: int = Field(ge=1, le=LARGEST)
    """Rounds between two additional reports."""
    until: int = Field(ge=1, le=LARGEST)
    """Last round with an additional report."""

    @model_validator(mode="after")
    def _some(self) -> ExtraReports:
        if self.until < self.every:
            raise ValueError(f"until: {self.until} is before the first report, every: {self.every}")
        return self


ACTIVITY, POPULARITY = "activity", "popularity"
"""Groups of users by the number of their training items, and by the mean popularity of these items."""


class UserGroups(Options):
    """Groups of users, for each of which measures and results of attacks are computed, too."""

    by: Annotated[str, Field(min_length=1)]
    """activity, popularity (of a user's items), or a column of users' attributes, such as gender."""
    parts: Annotated[int, Field(ge=2, le=100)] = 10
    """Number of groups of equal size, by activity, popularity, or numbers with more different values than that."""
    unknown: Literal["refuse", "group"] = "refuse"
    """How to treat users without a value; group: they are a group of their own."""
    least: Annotated[int, Field(ge=1, le=LARGEST)] = 2
    """Smallest number of users of a group; a smaller one is refused."""


Rounds: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=1, le=LARGEST)], ...], Field(min_length=1)]


class KeepOptions(Options):
    """What a run stores, so that later measures and observers need no second run."""

    versions: Literal["all", "last"] | Rounds = "all"
    """Reports of which models are stored (versions-*.npz): all (then every trained model, for observers), last, or
    rounds."""


class EvaluateOptions(Options):
    """When models and attacks are scored, and by which measures of recommendation quality."""

    every: int = Field(default=10, ge=1, le=LARGEST)
    """Rounds between two evaluations; attacks are scored at the same ticks."""
    also: Rounds | ExtraReports | None = None
    """Additional rounds at which to evaluate: a list, or {every: 2, until: 60}; useful if accuracy peaks early."""
    metrics: tuple[str, ...] = ("hr@20", "ndcg@20")
    """MEASURE@K or full_MEASURE@K, such as hr@20 or recall@20; val_recall@20: of validation items (docs/measures.md).
"""
    mask: Literal["train", "train+validation"] = "train"
    """Parts of the split that are excluded from a user's ranking."""
    beside: tuple[Literal["popularity", "random"], ...] = ()
    """Baseline rankings to evaluate with the same metrics: by popularity, or random."""
    targets: Targets | Literal["attacked"] | None = None
    """Items to measure the exposure of (er@K): ids, {least_popular: n} of training items, or `attacked`, the items that
    attackers promote."""
    activity_groups: Annotated[int, Field(ge=2, le=100)] | None = None
    """Number of user groups by activity; the summary reports test metrics for each group."""
    groups: UserGroups | tuple[UserGroups, ...] | None = None
    """Groups of users for which everything is computed, too: {by: gender}, or a list of such."""
    by_user: Literal["last", "all", "none"] = "last"
    """Reports at which each user's metrics are kept (metrics_by_user.parquet); last: and the one that validation items
    choose."""
    keep_lists: Annotated[int, Field(ge=1, le=LARGEST)] | None = None
    """Number of recommended items of each user at the last report to save (lists.parquet)."""
    sample: Annotated[int, Field(ge=2, le=LARGEST)] | None = None
    """Number of users, drawn at random, for whom recommendations are measured; the summary then has standard errors."""
    train_loss: bool = False
    """Report `train_loss`, the mean over users of the loss on their own training samples (docs/measures.md); not
    available for central training or sharded runs."""
    keep_version: bool = False
    """Save the coordinator's final item embeddings and shared weights (version.npz)."""
    keep: Literal["versions"] | KeepOptions | None = None
    """What is stored for `gossiprec observe`: versions, or {versions: [100, 200]} at chosen reports; null stores
    nothing."""

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield a sample of more users, and lists and targets of more items, than there are."""
        if self.sample is not None and self.sample > n_users:
            yield (
                ("sample",),
                f"found {self.sample}, but there are only {n_users} users; lower it, or remove it",
            )
        for index, text in enumerate(self.metrics):
            metric = read_metric(text)
            if metric.full and metric.k >= n_items:
                yield ("metrics", index), f"found {text!r}, but there are only {n_items} items"
        yield from unknown_targets(self.targets, n_items)

    def rounds(self) -> Iterator[int]:
        """Yield the rounds at which there is a report, without end."""
        also = self.also
        more = (
            range(also.every, also.until + 1, also.every)
            if isinstance(also, ExtraReports)
            else sorted(also or ())
        )
        regular = itertools.count(self.every, self.every)
        return (due for due, _ in itertools.groupby(heapq.merge(more, regular)))

    def has_report_at(self, round_: int) -> bool:
        """Return whether there is a report at a round, or a run begins there (0)."""
        also = self.also
        if isinstance(also, ExtraReports):
            more = round_ <= also.until and not round_ % also.every
        else:
            more = round_ in (also or ())
        return more or not round_ % self.every

    def reports_up_to(self, round_: int) -> int:
        """Return the number of reports up to a round."""
        return sum(1 for _ in itertools.takewhile(lambda due: due <= round_, self.rounds()))

    def reportable_measures(self) -> tuple[str, ...]:
        """The measures that a run may report: metrics, also of reference orders, and of the chosen report."""
        baselines = (baseline_metric_name(m, order) for order in self.beside for m in self.metrics)
        chosen = (m for m in self.metrics if self.validation_metric and not read_metric(m).on_validation)
        return (*self.metrics, *baselines, *(baseline_metric_name(m, VALIDATED) for m in chosen))

    @property
    def group_choices(self) -> tuple[UserGroups, ...]:
        """The groups as a tuple."""
        return (self.groups,) if isinstance(self.groups, UserGroups) else self.groups or ()

    @property
    def validation_metric(self) -> str | None:
        """The first metric of validation items, which selects the chosen report: the one at which it is highest."""
        return next((metric for metric in self.metrics if read_metric(metric).on_validation), None)

    @property
    def stored_reports(self) -> Literal["all", "last"] | tuple[int, ...] | None:
        """The reports of which versions are stored, or None."""
        return "all" if self.keep == "versions" else self.keep.versions if self.keep else None

    @model_validator(mode="after")
    def _kept_at_reports(self) -> EvaluateOptions:
        rounds = self.stored_reports
        for round_ in rounds if isinstance(rounds, tuple) else ():
            if not self.has_report_at(round_):
                raise ValueError(
                    f"keep.versions: found round {round_}, which has no report; expected rounds of reports; "
                    "add it to evaluate.also"
                )
        return self

    @field_validator("beside")
    @classmethod
    def _once(cls, orders: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(orders)) < len(orders):
            raise ValueError(f"found {', '.join(orders)}; expected each order once")
        return orders

    @field_validator("groups")
    @classmethod
    def _grouped_once(
        cls, groups: UserGroups | tuple[UserGroups, ...] | None
    ) -> UserGroups | tuple[UserGroups, ...] | None:
        names = [choice.by for choice in groups] if isinstance(groups, tuple) else []
        if len(set(names)) < len(names):
            raise ValueError(f"found {', '.join(names)}; expected each `by` once")
        return groups

    @field_validator("metrics")
    @classmethod
    def _known(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        for metric in metrics:
            read_metric(metric)
        repeated = sorted({metric for metric in metrics if metrics.count(metric) > 1})
        if repeated:
            raise ValueError(f"found {', '.join(repeated)} twice; remove the repetition")
        return metrics

    @model_validator(mode="after")
    def _targets_fit(self) -> EvaluateOptions:
        exposing = [metric for metric in self.metrics if read_metric(metric).measure.wants is TargetRanks]
        if exposing and self.targets is None:
            raise ValueError(
                f"{exposing[0]} measures how often target items are shown; set targets: [ids] or targets: "
                "{least_popular: n}, or with attackers targets: attacked"
            )
        if self.targets is not None and not exposing:
            raise ValueError(
                "targets requires a metric of target items, such as er@10; add one, or remove targets"
            )
        return self

    @model_validator(mode="after")
    def _groups_have_metrics(self) -> EvaluateOptions:
        if self.activity_groups and not any(read_metric(metric).uses_test_items for metric in self.metrics):
            raise ValueError(
                f"found activity_groups: {self.activity_groups}, but no metric of test items, such as "
                "recall@20; add one, or remove activity_groups"
            )
        return self


class StopOptions(Options):
    """A rule by which a run ends before its last report."""

    measure: str
    """Measure of validation items, such as val_recall@20; one of evaluate.metrics."""
    patience: int = Field(default=5, ge=1, le=LARGEST)
    """Number of reports in a row without a better value after which the run ends."""
    min_delta: float = Field(default=0.0, ge=0)
    """How much better than the best value so far a value must be."""

    @field_validator("measure")
    @classmethod
    def _of_validation(cls, measure: str) -> str:
        metric = read_metric(measure)
        if not metric.on_validation:
            seen = "test items: the run would be fitted to them" if metric.uses_test_items else None
            why = f"sees {seen}" if seen else "sees no validation items"
            raise ValueError(
                f"found {measure!r}, which {why}; expected a measure of validation items, such as val_recall@20"
            )
        return measure


_OF_TRAINING = ("learning_rate", "betas", "eps", "local_epochs", "negatives")
CHANGEABLE = {f"training.{name}": name for name in _OF_TRAINING}
"""The options of training that a run can change, by path."""


class OptionChange(Options):
    """New values of options, which hold after a report."""

    at: int = Field(ge=0, le=LARGEST)
    """Round of the report; 0: from the start."""
    set: Annotated[dict[str, Any], Field(min_length=1)]
    """Options and their new values, such as {training.learning_rate: 0.001}."""

    @field_validator("set")
    @classmethod
    def _changeable(cls, values: dict[str, Any]) -> dict[str, Any]:
        for path in values:
            if path not in CHANGEABLE:
                raise ValueError(
                    f"found {path!r}, which is fixed when a run is prepared, because events and memory are planned "
                    f"by it; expected one of {', '.join(CHANGEABLE)}"
                )
        plain = {CHANGEABLE[path]: value for path, value in values.items()}
        try:
            valid = TrainingOptions.model_validate(plain).model_dump(mode="json")
        except ValidationError as error:
            first = error.errors()[0]
            path = f"training.{'.'.join(map(str, first['loc']))}"
            raise ValueError(f"{path}: found {first['input']!r}: {first['msg'].lower()}") from None
        return {path: valid[name] for path, name in CHANGEABLE.items() if path in values}


class CoordinatorOptions(Options):
    """What the coordinator sees of the answers of clients, and how sums are encoded (docs/coordinator.md)."""

    sees: Literal["updates", "sums", "final"] = "updates"
    """updates: every answer; sums: the sum of each round, by secure aggregation; final: only the final model, because a
    party that all trust computes the others."""
    clip: float = Field(default=1.0, gt=0, le=1e6)
    """sums: largest magnitude of a number that a client changes; larger changes are clipped."""
    bits: int = Field(default=16, ge=1, le=40)
    """sums: binary digits after the point of an encoded number."""
    modulus: Annotated[int, Field(ge=2, le=64)] | Literal["auto"] = "auto"
    """sums: k, the bits of a masked number; sums are modulo 2^k; auto: the smallest k for clip, bits and the round."""
    minimum: int = Field(default=2, ge=2, le=LARGEST)
    """sums: smallest number of clients of a sum; a round with fewer answers is skipped."""
    threshold: float = Field(default=0.67, gt=0, le=1)
    """sums: fraction of a round's clients that must send shares; a round with fewer answers is skipped."""
    masks: Literal["auto"] | bool = "auto"
    """sums: compute keys, masks and shares; false: the same sums take less time, because masks cancel; auto: compute
    them in rounds of up to 16 clients."""

    @property
    def scheme(self) -> str | None:
        """The name of the scheme of messages of a coordinator that sees no single answer, or None."""
        return None if self.sees == "updates" else "sums"

    @model_validator(mode="after")
    def _of_sums(self) -> CoordinatorOptions:
        fields = type(self).model_fields
        given = [key for key in fields if key != "sees" and getattr(self, key) != fields[key].default]
        if given and self.sees != "sums":
            raise ValueError(
                f"found {given[0]}, but sees: {self.sees}; set sees to sums, or remove {given[0]}"
            )
        return self


class ExecutorOptions(Options):
    """Execution of computations. No option changes results beyond rounding."""

    name: Literal["auto", "reference", "batched", "fused", "ray"] = "auto"
    """auto: fused if the model has compiled kernels, otherwise batched; ray: divide the nodes among shards, processes
    on one or several machines (docs/shards.md)."""
    threads: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    """auto: one thread per core; with ray, threads per shard: the number of cores divided by the number of shards."""
    wave_size: Annotated[int, Field(ge=1, le=LARGEST)] | Literal["unlimited"] = "unlimited"
    """Maximum number of operations per wave; lower it to save memory."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device on which the batched executor stores the models."""
    storage: Literal["float32", "float16"] = "float32"
    """Number format of stored models; float16 halves the memory and uses stochastic rounding (docs/models.md)."""
    portable: bool = False
    """Produce the same bytes on every processor of one architecture; requires compiled kernels, and is slower."""
    shards: Annotated[int, Field(ge=1, le=64)] = 1
    """ray: number of processes among which the nodes are divided, including this one."""
    address: str = "auto"
    """ray: address of the cluster, host:port; auto: a running cluster, otherwise start Ray on this machine; local:
    start Ray on this machine."""
    inner: Literal["auto", "reference", "batched", "fused"] = "auto"
    """ray: executor within a shard, like `name` for a run without shards."""

    @model_validator(mode="after")
    def _of_ray(self) -> ExecutorOptions:
        fields = type(self).model_fields
        given = [key for key in ("shards", "address", "inner") if getattr(self, key) != fields[key].default]
        if given and self.name != "ray":
            raise ValueError(f"{given[0]} requires name: ray, found name: {self.name}")
        return self

    def thread_count(self) -> int:
        """Return the number of threads that compute."""
        return max(1, usable_cores() // self.shards) if self.threads == "auto" else self.threads

    @property
    def computing_executor(self) -> str:
        """The executor that computes, in this process or on Ray."""
        return self.inner if self.name == "ray" else self.name


class CheckpointOptions(Options):
    """When a run saves its state. It never changes a result. Checkpoints are taken at reports (``evaluate``)."""

    every: Annotated[int, Field(ge=1)] | None = None
    """Rounds between checkpoints; null: only by time."""
    minutes: Annotated[float, Field(gt=0)] | None = 5.0
    """Minutes between checkpoints; if this and `every` are null, no checkpoints are written."""
    keep: int = Field(default=2, ge=1)
    """Number of most recent checkpoints to keep."""
