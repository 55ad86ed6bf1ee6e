"""Quantities of a study and their labels; labels that the axes already explain are folded."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gossiprec.measures.selectors import BASELINES, FILTERS, OF_ATTACKS, VALIDATED, split_baseline_name

RUN_WORDS = {
    "nodes": "nodes",
    "items": "items",
    "interactions": "interactions",
    "wakes": "wakes",
    "messages": "messages sent",
    "node_updates": "local epochs",
    "virtual_time": "virtual time (mean wake periods)",
    "bytes.sent": "bytes sent",
    "bytes.up": "bytes to the coordinator",
    "bytes.down": "bytes from the coordinator",
    "rounds.mean_answers": "mean answers per round",
    "rounds.late": "late answers",
    "rounds.given_up": "abandoned client requests",
    "privacy.nodes": "nodes with a privacy budget",
    "privacy.delta": "delta",
    "privacy.epsilon_max": "maximum epsilon",
    "privacy.epsilon_mean": "mean epsilon",
    "privacy.noise_multiplier_min": "minimum noise multiplier",
    "privacy.noise_multiplier_max": "maximum noise multiplier",
    "privacy.epsilon_per_coordinate": "epsilon per coordinate",
    "privacy.coordinates_max": "maximum number of coordinates sent",
    "privacy.told_rows.epsilon_max": "maximum epsilon of uploaded user embeddings",
    "privacy.told_rows.epsilon_mean": "mean epsilon of uploaded user embeddings",
    "contribution.epsilon_item": "epsilon per item",
    "contribution.epsilon_set_mean": "mean epsilon per contributed set",
    "contribution.epsilon_set_max": "maximum epsilon per contributed set",
    "contribution.kept": "fraction of contributed items that are the user's own",
    "contribution.similarity": "similarity between contributed items and the user's own items",
    "contribution.leaks.cda": "community accuracy from contributed sets",
    "contribution.leaks.cda_random": "community accuracy of random guessing",
    "contribution.leaks.mia_auc": "membership AUC from contributed sets",
    "contribution.leaks.mia_auc_popularity": "membership AUC from popularity",
    "contribution.leaks.auxiliary_cda": "community accuracy from the auxiliary model",
    "contribution.leaks.auxiliary_mia_auc": "membership AUC from the auxiliary model",
    "clusters.times": "number of clusterings",
    "clusters.unknown": "clients without a cluster",
    "told_vectors.received_mean": "mean number of vectors sent to a client",
    "told_vectors.received_max": "maximum number of vectors sent to a client",
    "told_vectors.leaks.exact.cda": "community accuracy from exact vectors",
    **{
        f"told_vectors.leaks.{how}.{name}{of}": f"{words}, {how}{suffix}"
        for how in ("nearest", "likeliest", "random")
        for of, suffix in {"": "", "_of_means": ", of means"}.items()
        for name, words in {
            "reidentified": "users re-identified from uploaded vectors",
            "own_first": "users ranked first by uploaded vectors",
            "own_rank": "mean relative rank of the true user by uploaded vectors",
            "cda": "community accuracy from uploaded vectors",
        }.items()
        if not of or (how != "random" and name != "reidentified")
    },
}
"""Labels of the measures of whole runs, by name."""

WORDS = {
    "max_aac": "highest attack accuracy",
    "last_aac": "last attack accuracy",
    "at_round": "round of the highest attack accuracy",
    "best10_min": "minimum accuracy of the best 10 %",
    "best10_mean": "mean accuracy of the best 10 %",
    "upper_bound": "fraction of the community met",
    "random_bound": "attack accuracy of random guessing",
    "exposure_defended": "exposure of nodes with a defence",
    "exposure_undefended": "exposure of nodes without a defence",
    "tied_share": "fraction of the communities decided by ties",
    "mia_accuracy": "accuracy of membership inference",
    "mia_precision": "precision of membership inference",
    "mia_recall": "recall of membership inference",
    "item_auc": "AUC of membership inference",
    "item_average_precision": "average precision of membership inference",
    "item_precision": "precision of the likeliest items",
    "item_tpr_at_1": "members found at 1 % false positives",
    "item_tpr_at_0.1": "members found at 0.1 % false positives",
    "item_advantage": "advantage of membership inference",
    "item_auc_popularity": "AUC of popularity",
    "user_auc": "AUC of membership of a user's data",
    "user_advantage": "advantage of membership of a user's data",
    "user_tpr_at_1": "users found at 1 % false positives",
    "user_tpr_at_0.1": "users found at 0.1 % false positives",
    "item_members": "fraction of members among the scored items",
    "attribute_auc": "AUC of attribute inference",
    "attribute_balanced_accuracy": "balanced accuracy of attribute inference",
    "attribute_ceiling_auc": "AUC of attributes from raw data",
    "attribute_inferred": "fraction of users with an inferred attribute",
    "reconstruction_f1": "F1 of reconstructed items",
    "reconstruction_popularity_f1": "F1 of as many popular items",
    **RUN_WORDS,
}
"""Labels of measures by name; ranking metrics get theirs from :data:`METRICS`."""

METRICS = {"hr": "HR", "ndcg": "NDCG", "mrr": "MRR", "er": "ER", "f1": "F1"}
"""Metrics that are written as abbreviations."""

SHARES = {
    *(name for name in WORDS if name.startswith("told_vectors.leaks.") and "own_rank" not in name),
    "mia_accuracy", "mia_precision", "mia_recall", *(name for name in WORDS if name.startswith("item_")),
    "contribution.kept", "contribution.leaks.cda", "contribution.leaks.cda_random",
    "contribution.leaks.auxiliary_cda",
}  # fmt: skip
"""Measures that pictures show in percent, in addition to ranking metrics and attack measures."""

_OBSERVER = re.compile(r"(?P<who>single|coalition)(?P<share>-[\d.e+-]+%|-\d+-nodes)?(?P<place>-.+)?")
_BESIDE = dict(
    zip((*BASELINES, VALIDATED), ("by popularity", "in random order", "as validated"), strict=True)
)


def is_share(name: str) -> bool:
    """Return whether a measure is a fraction that pictures show in percent."""
    return (name in OF_ATTACKS and name != "at_round") or "@" in name or name in SHARES


def measure_label(name: str) -> str:
    """Return the label of a measure, without the unit if the unit is percent."""
    if "@" not in name:
        return WORDS.get(name, name.replace("_", " "))
    metric, order = split_baseline_name(name)
    label = _metric(metric)
    return f"{label}, {_BESIDE.get(order, order.replace('=', ' '))}" if order else label


def observer_label(name: str) -> str:
    """Return the label of an observer, such as ``coalition of 10 %, degree`` for ``coalition-10%-degree``."""
    matched = _OBSERVER.fullmatch(name)
    if matched is None:
        return name
    share = (matched["share"] or "")[1:].replace("%", " %")
    if matched["who"] == "single":
        return "single nodes" + (f", {share.removesuffix('-nodes')} of them" if share else "")
    place = f", {matched['place'][1:]}" if matched["place"] else ""
    return "coalition" + (f" of {share.replace('-nodes', ' nodes')}" if share else "") + place


def rule_label(relevance: str) -> str:
    """Return the label of an attack's ranking rule, such as ``standardized relevance``."""
    matched = re.fullmatch(r"mia-(?P<threshold>.+)", relevance)
    if matched:
        return f"entropy MIA, threshold {matched['threshold']}"
    return "AIA by gradients" if relevance == "aia" else f"{relevance} relevance"


def _metric(name: str) -> str:
    """Return ``NDCG@20 of all items`` for ``full_ndcg@20``."""
    about = ""
    rest = name.removeprefix("val_")
    if rest != name:
        about = ", validation"
    kept = rest.removeprefix("full_")
    if kept != rest:
        about = f" of all items{about}"
    measure, at, k = kept.partition("@")
    return f"{METRICS.get(measure, measure.replace('_', ' '))}{at}{k}{about}"


Label = Any
"""A value of an axis in the table: text, a number, true or false, or None."""


@dataclass(frozen=True)
class Quantity:
    """A measure, with the labels of an attack if it belongs to one."""

    name: str
    observer: str | None = None
    relevance: str | None = None
    momentum: float | None = None
    community_size: int | None = None
    others: tuple[tuple[str, Any], ...] = ()

    @property
    def labels(self) -> dict[str, Any]:
        """All labels of the quantity."""
        found = {name: getattr(self, name) for name in FILTERS if getattr(self, name) is not None}
        return found | dict(self.others)

    def name_with_labels(self) -> str:
        """Return the name with its labels, for error messages and tables."""
        parts = [self.observer, self.relevance]
        parts += [f"β {self.momentum:g}" if self.momentum is not None else None]
        parts += [f"K {self.community_size}" if self.community_size is not None else None]
        parts += [f"{name} {format_label(value)}" for name, value in self.others]
        labels = ", ".join(part for part in parts if part)
        return f"{self.name} ({labels})" if labels else self.name

    def label_text(self, *, excluded: Container[str] = ()) -> str:
        """Return the labels as text, except for some."""
        label_of = {"observer": observer_label, "relevance": rule_label}
        signs = {"community_size": "K"}
        return ", ".join(
            label_of[name](value) if name in label_of else f"{signs.get(name, name)} {format_label(value)}"
            for name, value in self.labels.items()
            if name not in excluded
        )

    def request_text(self) -> str:
        """Return the form in which it is requested: ``max_aac[single,ndcg,0.9,5]``."""
        filters = [format_label(self.labels.get(name, "*")) for name in FILTERS]
        while filters and filters[-1] == "*":
            filters.pop()
        inside = ",".join([*filters, *(f"{name}={format_label(value)}" for name, value in self.others)])
        return f"{self.name}[{inside}]" if inside else self.name

    @property
    def is_share(self) -> bool:
        """Whether the measure is a fraction that pictures show in percent."""
        return is_share(self.name)

    @property
    def unit(self) -> str:
        """The label of its axis."""
        words = measure_label(self.name)
        return f"{words} (%)" if self.is_share else words

    @property
    def picture_factor(self) -> float:
        """The factor from table values to picture values."""
        return 100.0 if self.is_share else 1.0

    def cells(self) -> list[Any]:
        """Return the quantity as the first cells of a csv row."""
        others = ",".join(f"{name}={format_label(value)}" for name, value in self.others)
        return [
            f"{self.name}[{others}]" if others else self.name,
            *(self.labels.get(name, "") for name in FILTERS),
        ]


def format_label(label: Label) -> str:
    """Return the text of a label in pictures."""
    if isinstance(label, bool):
        return str(label).lower()
    return f"{label:g}" if isinstance(label, float) else str(label)


Points = TypeVar("Points", bound=Mapping[Any, Any])

_OBSERVER_PARTS = re.compile(r"(?P<who>\w+?)(?P<share>-[\d.e+-]+%|-\d+-nodes)?(?P<place>-.*)?")
_PARTS = ("who", "share", "place")
_COLUMNS = ("relevance", "momentum", "community_size")


def join_labels(
    values: Mapping[Quantity, Points], join: Callable[[list[Points]], Points]
) -> dict[Quantity, Points]:
    """Return values in which quantities that differ only by the axes are joined.

    Two quantities are joined if they have the same name, differ in some labels, and no combination of the
    axes has both: the labels are then a function of the combination. As few labels as possible are left out.

    Parameters
    ----------
    values : mapping of Quantity to mapping
        Value of each quantity at each combination.
    join : callable
        Joins several mappings without a common key.
    """
    found = dict(values)
    for name in dict.fromkeys(quantity.name for quantity in values):
        for columns in _subsets(_labels_of(quantity) for quantity in found if quantity.name == name):
            found = _without(found, name, columns, join)
    return found


def _subsets(labels: Iterator[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield the sets of labels in which quantities differ, small ones first."""
    seen = defaultdict(set)
    every = list(labels)
    for key in dict.fromkeys(key for each in every for key in each):
        seen[key] = {each.get(key) for each in every}
    varying = [key for key, values in seen.items() if len(values) > 1]
    for size in range(1, len(varying) + 1):
        yield from itertools.combinations(varying, size)


def _without(
    values: dict[Quantity, Points], name: str, columns: Sequence[str], join: Callable[[list[Points]], Points]
) -> dict[Quantity, Points]:
    """Return the values with the quantities of a name joined if they differ only in these labels and never coincide."""
    groups: dict[Any, list[Quantity]] = defaultdict(list)
    for quantity in values:
        rest = {key: value for key, value in _labels_of(quantity).items() if key not in columns}
        groups[(quantity.name == name and frozenset(rest.items())) or quantity].append(quantity)
    found: dict[Quantity, Points] = {}
    for group in groups.values():
        points = [point for quantity in group for point in values[quantity]]
        if len(group) > 1 and len(points) == len(set(points)):
            found[_stripped(group[0], columns)] = join([values[quantity] for quantity in group])
        else:
            found |= {quantity: values[quantity] for quantity in group}
    return found


def _labels_of(quantity: Quantity) -> dict[str, Any]:
    """Return all labels of a quantity, with the name of an observer split into parts."""
    matched = _OBSERVER_PARTS.fullmatch(quantity.observer or "")
    parts = {part: matched[part] if matched else None for part in _PARTS}
    if matched is None:
        parts["who"] = quantity.observer
    return (
        {"name": quantity.name}
        | parts
        | {key: getattr(quantity, key) for key in _COLUMNS}
        | dict(quantity.others)
    )


def _stripped(quantity: Quantity, columns: Sequence[str]) -> Quantity:
    """Return a quantity without some labels."""
    labels = {key: value for key, value in _labels_of(quantity).items() if key not in columns}
    observer = "".join(labels.get(part) or "" for part in _PARTS).removeprefix("-")
    return Quantity(
        quantity.name,
        observer=observer or None,
        relevance=labels.get("relevance"),
        momentum=labels.get("momentum"),
        community_size=labels.get("community_size"),
        others=tuple((key, value) for key, value in quantity.others if key in labels),
    )
