"""The sections of a scenario that are the same whatever data set, model or protocol it names."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from gossiprec.measures.base import TargetRanks
from gossiprec.measures.metric import read_metric
from gossiprec.measures.names import VALIDATED, beside_name
from gossiprec.options import LARGEST, Options


class Training(Options):
    """How a node trains its model on its own data, each time the protocol lets it.

    References
    ----------
    Defaults: Table 3 of the CDA paper, except `local_epochs` and `batch_size`; `betas` and `eps` are torch's.
    """

    optimizer: Literal["adam", "sgd"] = Field(
        default="adam", description="Its state stays with the node and never travels."
    )
    learning_rate: float = Field(default=0.01, gt=0, description="Step size of the optimizer.")
    batch_size: Annotated[int, Field(ge=1, le=LARGEST)] | Literal["full"] = Field(
        default=64,
        description="Samples (positives and negatives) a step; `full`: all samples of the epoch in one step.",
    )
    local_epochs: int = Field(
        default=1, ge=1, le=10**6, description="Passes over the node's samples each time it trains."
    )
    negatives: int = Field(
        default=4, ge=1, le=10**6, description="Items drawn as negatives for each positive."
    )
    negatives_drawn: Literal["each_update", "once"] = Field(
        default="each_update", description="Anew each time that a node trains, or once for each node."
    )
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        default=(0.9, 0.999), description="Adam's decay of the first and second moment."
    )
    eps: float = Field(default=1e-8, gt=0, description="Adam's term against division by zero.")


class NodeFraction(Options):
    """A part of all nodes, drawn at random from the scenario's seed."""

    fraction: float = Field(gt=0, le=1, description="Part of all nodes.")


NodeIds: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=0, le=LARGEST)], ...], Field(min_length=1)]
Nodes: TypeAlias = Literal["all"] | NodeFraction | NodeIds


class LeastPopular(Options):
    """The items that fewest users have."""

    least_popular: int = Field(ge=1, le=LARGEST, description="How many items; of equals those of lower id.")


ItemIds: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=0, le=LARGEST)], ...], Field(min_length=1)]
Targets: TypeAlias = LeastPopular | ItemIds


class Denser(Options):
    """Reports that come more often for a while."""

    every: int = Field(ge=1, le=LARGEST, description="Rounds between two of them.")
    until: int = Field(ge=1, le=LARGEST, description="The last round at which there may be one.")

    @model_validator(mode="after")
    def _some(self) -> Denser:
        if self.until < self.every:
            raise ValueError(f"until: {self.until} comes before the first of them, every: {self.every}")
        return self


Rounds: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=1, le=LARGEST)], ...], Field(min_length=1)]


class Evaluate(Options):
    """When models and attacks are scored, and by which measures of recommendation quality."""

    every: int = Field(
        default=10,
        ge=1,
        le=LARGEST,
        description="Rounds between two evaluations; attacks are scored at the same ticks.",
    )
    also: Rounds | Denser | None = Field(
        default=None,
        description="More rounds at which to score: a list, or {every: 2, until: 60}, as where accuracy peaks early.",
    )
    metrics: tuple[str, ...] = Field(
        default=("hr@20", "ndcg@20"),
        description="MEASURE@K or full_MEASURE@K, such as hr@20 or recall@20; val_recall@20: of validation items "
        "(docs/measures.md).",
    )
    mask: Literal["train", "train+validation"] = Field(
        default="train", description="Items that are in nobody's own list of all items: those of these parts."
    )
    beside: tuple[Literal["popularity", "random"], ...] = Field(
        default=(),
        description="Orders of the items that the same metrics are taken of, once: the most popular ones, any.",
    )
    targets: Targets | Literal["attacked"] | None = Field(
        default=None,
        description="Items whose exposure is measured (er@K): ids, {least_popular: n} of training items, or attacked: "
        "those that attackers promote.",
    )
    activity_groups: Annotated[int, Field(ge=2, le=100)] | None = Field(
        default=None,
        description="Into so many groups users are put by their training interactions: the summary has the metrics of "
        "test items for each.",
    )
    train_loss: bool = Field(
        default=False,
        description="Whether each report has `train_loss`, the mean over users of the model's loss on their own "
        "training samples (docs/measures.md); not for central training, and not divided among shards.",
    )
    keep_version: bool = Field(
        default=False,
        description="Whether a coordinator's last version, items and shared weights, is kept (version.npz).",
    )

    def rounds(self) -> Iterator[int]:
        """Yield the rounds at which there is a report, without end."""
        also = self.also
        more = (
            range(also.every, also.until + 1, also.every) if isinstance(also, Denser) else sorted(also or ())
        )
        regular = itertools.count(self.every, self.every)
        return (due for due, _ in itertools.groupby(heapq.merge(more, regular)))

    def measured(self) -> tuple[str, ...]:
        """Return what a run may tell: the metrics, those of other orders, and those of the report that is chosen."""
        beside = (beside_name(m, order) for order in self.beside for m in self.metrics)
        chosen = (m for m in self.metrics if self.validated_by and not read_metric(m).on_validation)
        return (*self.metrics, *beside, *(beside_name(m, VALIDATED) for m in chosen))

    @property
    def validated_by(self) -> str | None:
        """The first metric of validation items: where it is highest, there is the report that is chosen."""
        return next((metric for metric in self.metrics if read_metric(metric).on_validation), None)

    @field_validator("beside")
    @classmethod
    def _once(cls, beside: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(beside)) < len(beside):
            raise ValueError(f"found {', '.join(beside)}, must name each order once")
        return beside

    @field_validator("metrics")
    @classmethod
    def _known(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        for metric in metrics:
            read_metric(metric)
        repeated = sorted({metric for metric in metrics if metrics.count(metric) > 1})
        if repeated:
            raise ValueError(f"{', '.join(repeated)} written twice")
        return metrics

    @model_validator(mode="after")
    def _targets_fit(self) -> Evaluate:
        exposing = [metric for metric in self.metrics if read_metric(metric).measure.wants is TargetRanks]
        if exposing and self.targets is None:
            raise ValueError(
                f"{exposing[0]} measures how often target items are shown; say which: targets: [ids] or "
                "targets: {least_popular: n}, or with attackers targets: attacked"
            )
        if self.targets is not None and not exposing:
            raise ValueError(
                "targets belongs to a metric of target items, such as er@10; add one or remove it"
            )
        return self

    @model_validator(mode="after")
    def _groups_have_metrics(self) -> Evaluate:
        if self.activity_groups and not any(read_metric(metric).of_test_items for metric in self.metrics):
            raise ValueError(
                f"found activity_groups: {self.activity_groups}, but no metric of test items is measured, such as "
                "recall@20; add one or remove it"
            )
        return self


class Executor(Options):
    """How the arithmetic is run; no choice here changes a result beyond rounding."""

    name: Literal["auto", "reference", "batched", "fused", "ray"] = Field(
        default="auto",
        description="auto: fused where the model has compiled kernels, else batched; ray: the nodes divided among "
        "shards, processes on one machine or several (docs/shards.md).",
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = Field(
        default="auto",
        description="auto: one for each core; under ray, of each shard: the cores divided by the shards.",
    )
    wave_size: Annotated[int, Field(ge=1, le=LARGEST)] | Literal["unlimited"] = Field(
        default="unlimited", description="Most operations run together; lower it to save memory."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Where the batched executor keeps the models."
    )
    storage: Literal["float32", "float16"] = Field(
        default="float32",
        description="What models are kept in; float16 halves the memory and rounds at random (docs/models.md).",
    )
    portable: bool = Field(
        default=False,
        description="The same bytes on every processor of one architecture; compiled kernels only, and slower.",
    )
    shards: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="ray: Processes that the nodes are divided among, this one included."
    )
    address: str = Field(
        default="auto",
        description="ray: The cluster: host:port; auto: the one that is there, or else Ray started on this machine; "
        "local: Ray started on this machine.",
    )
    inner: Literal["auto", "reference", "batched", "fused"] = Field(
        default="auto",
        description="ray: What computes within a shard, as `name` says it of a run that is not divided.",
    )

    @model_validator(mode="after")
    def _of_ray(self) -> Executor:
        fields = type(self).model_fields
        given = [key for key in ("shards", "address", "inner") if getattr(self, key) != fields[key].default]
        if given and self.name != "ray":
            raise ValueError(f"{given[0]} belongs to name: ray, found name: {self.name}")
        return self

    @property
    def computes(self) -> str:
        """What computes, wherever it does."""
        return self.inner if self.name == "ray" else self.name


class Checkpoint(Options):
    """When a run notes its state; none of it changes a result. Checkpoints are taken at reports (``evaluate``)."""

    every: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Rounds between two checkpoints; null: only by the clock."
    )
    minutes: Annotated[float, Field(gt=0)] | None = Field(
        default=5.0, description="Minutes between two checkpoints; null, and every null: none are taken."
    )
    keep: int = Field(default=2, ge=1, description="How many are kept, the last ones.")
