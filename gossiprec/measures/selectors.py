"""Names of metrics in a scenario, ``[val_][full_]name@K``, and of a run's numbers, ``max_aac[single,0.99]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gossiprec.base.errors import ScenarioError
from gossiprec.measures import MEASURES, Measure, RelevantRanks, ValidationRanks

SAMPLED = 99
"""Number of items without an interaction of the user that are drawn to rank each test item among."""
ON_VALIDATION = "val_"
"""Prefix of metrics that rank validation items in place of test items."""
RETIRED = {"full_hr": "recall"}
"""Former names of metrics, and their present names; results of older runs must not be misread."""

_METRIC = re.compile(r"(val_)?(full_)?([^@\s]+)@([1-9][0-9]{0,5})", re.ASCII)


@dataclass(frozen=True)
class MetricSpec:
    """A measure, the kind of ranking that it uses, and the cut-off.

    Attributes
    ----------
    name : str
        The name in the scenario.
    measure : type of Measure
    k : int
    full : bool
        Whether all items are ranked; otherwise a test item is ranked among the sampled ones.
    on_validation : bool
        Whether validation items are relevant; otherwise test items are.
    """

    name: str
    measure: type[Measure]
    k: int
    full: bool
    on_validation: bool = False

    @property
    def input_type(self) -> type[Any]:
        """The input of the measure."""
        return ValidationRanks if self.on_validation else self.measure.wants

    @property
    def uses_test_items(self) -> bool:
        """Whether it uses the ranks of test items, so that each user with test items has a value."""
        return self.input_type is RelevantRanks


def measure_name(text: str) -> str:
    """Return the registered name in a metric that :func:`read_metric` accepts."""
    return text.removeprefix(ON_VALIDATION).removeprefix("full_").partition("@")[0]


def read_metric(text: str) -> MetricSpec:
    """Return the metric with this name.

    Raises
    ------
    ValueError
        If there is none; the message shows what is valid.
    """
    form = _METRIC.fullmatch(text)
    if not form:
        known = ", ".join(MEASURES)
        raise ValueError(f"found {text!r}; expected a measure and a length, such as hr@20; measures: {known}")
    part, prefix, name, k = form[1] or "", form[2] or "", form[3], int(form[4])
    if prefix + name in RETIRED:
        raise ValueError(
            f"found {text!r}: this name used to mean recall; write {part}{RETIRED[prefix + name]}@{k}, or "
            f"{part}hit@{k} for the fraction of users with a hit"
        )
    try:
        measure = MEASURES[name]
    except ScenarioError as error:
        raise ValueError(f"found {text!r}: {error}") from None
    if prefix and not measure.sampled:
        raise ValueError(f"found {text!r}, but {name} always ranks all items; write {part}{name}@{k}")
    whole = RETIRED.get(f"full_{name}", f"full_{name}")
    if part and measure.wants is not RelevantRanks:
        raise ValueError(
            f"found {text!r}, but {name} uses neither test nor validation items; write {name}@{k}"
        )
    if part and measure.sampled and not prefix:
        raise ValueError(
            f"found {text!r}, but validation items are ranked among all items; write {part}{whole}@{k}"
        )
    if measure.sampled and not prefix and k > SAMPLED:
        raise ValueError(
            f"found {text!r}, but only {SAMPLED + 1} items are ranked; did you mean '{whole}@{k}'?"
        )
    return MetricSpec(text, measure, k, bool(prefix) or not measure.sampled, bool(part))


FILTERS = ("observer", "relevance", "momentum", "community_size")
"""Labels of the attacks that rank users, in the order of filters without a label."""
OF_ATTACKS = (
    "max_aac", "at_round", "last_aac", "best10_min", "best10_mean", "upper_bound", "random_bound",
    "exposure_defended", "exposure_undefended", "tied_share",
)  # fmt: skip
"""Numbers of each such attack."""
BASELINES = ("popularity", "random")
"""Orders of the items that no model learns, for which metrics can be computed, too."""
VALIDATED = "validated"
"""Suffix, in brackets, of a metric's value at the report with the best validation metric."""

ROC = "item_roc"
"""True positive rates of an attack on single items, one for each false positive rate."""
ROC_MEASURES = ("auc", "advantage", "tpr_at_1", "tpr_at_0.1")
"""Measures of a ROC curve."""
USER_MEASURES = tuple(f"user_{rate}" for rate in ROC_MEASURES)
"""Measures of an attack on all items of a user together."""
INTERVALS = tuple(
    f"{unit}_{rate}_{bound}"
    for unit in ("item", "user")
    for rate in ROC_MEASURES
    for bound in ("low", "high")
)
"""Ends of the intervals of its results. Tables and curves leave these and :data:`ROC` out."""

_FORM = re.compile(r"\s*([A-Za-z0-9_@.-]+)\s*(?:\[(.*)\])?\s*", re.DOTALL)
_KINDS: dict[str, type] = {"momentum": float, "community_size": int}


@dataclass(frozen=True)
class MeasureSelector:
    """A number of a run, or of those attacks with labels that pass the filters.

    Attributes
    ----------
    name : str
    filters : mapping of str to str, float or int
        Values that labels must have; for labels not in :data:`FILTERS`, the text as written.
    """

    name: str
    filters: Mapping[str, Any] = field(default_factory=dict)

    def accepts(self, labels: Mapping[str, Any]) -> bool:
        """Return whether an attack with these labels passes the filters."""
        return all(_is(labels.get(name), wanted) for name, wanted in self.filters.items())


def baseline_metric_name(metric: str, order: str) -> str:
    """Return the name of a metric of another order of the items, or at the validated report."""
    return f"{metric}[{order}]"


def split_baseline_name(name: str) -> tuple[str, str]:
    """Return a metric and its order of items, :data:`VALIDATED`, or its group of users such as ``gender=F``.

    The second part is empty for the models' own metrics of all users.
    """
    metric, bracket, order = name.removesuffix("]").rpartition("[")
    known = order in (*BASELINES, VALIDATED) or "=" in order
    return (metric, order) if bracket and known and "@" in metric else (name, "")


def is_of_group(name: str) -> bool:
    """Return whether a metric is that of a group of users."""
    return "=" in split_baseline_name(name)[1]


def unlisted_labels(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels that are not columns of a table."""
    return {name: value for name, value in labels.items() if name not in FILTERS}


def _is(found: Any, wanted: Any) -> bool:
    """Return whether a label equals the text of a filter."""
    if isinstance(found, str) or not isinstance(wanted, str):
        return bool(found == wanted)
    if isinstance(found, bool) or found is None:
        return str(found).lower() == wanted.lower()
    try:
        return bool(found == float(wanted))
    except ValueError:
        return False


def read_measure(text: str) -> MeasureSelector:
    """Return the measure that `text` names; filters come in order (``*`` for any) or as ``momentum=0.99``.

    Raises
    ------
    ValueError
        If it has another form; the message shows the valid one.
    """
    form = _FORM.fullmatch(text)
    if not form:
        raise ValueError(f"found {text!r}; expected name or name[observer,relevance,momentum,community_size]")
    name, inside = form[1], form[2]
    if inside is not None and "@" in name and split_baseline_name(f"{name}[{inside.strip()}]")[1]:
        return MeasureSelector(baseline_metric_name(name, inside.strip()))
    filters: dict[str, Any] = {}
    for place, part in enumerate([] if inside is None else inside.split(",")):
        key, value = _filter(part, place, inside, any_label=name not in OF_ATTACKS)
        if key in filters:
            raise ValueError(f"{key} is given twice in [{inside}]")
        filters[key] = _value(key, value, inside)
    return MeasureSelector(name, {key: value for key, value in filters.items() if value is not None})


def _filter(part: str, place: int, inside: str, *, any_label: bool) -> tuple[str, str]:
    key, equals, value = (text.strip() for text in part.partition("="))
    if not equals and place < len(FILTERS):
        return FILTERS[place], part.strip()
    if key not in FILTERS and not (any_label and equals and key.isidentifier()):
        allowed = ", ".join(FILTERS)
        raise ValueError(
            f"found {part.strip()!r} in [{inside}]; expected {allowed} in this order, or key=value"
        )
    return key, value


def _value(key: str, value: str, inside: str) -> Any:
    if value in ("", "*"):
        return None
    try:
        return _KINDS.get(key, str)(value)
    except ValueError:
        raise ValueError(f"found {value!r} for {key} in [{inside}], must be a number") from None


_FORMS = {"observer": "{}", "relevance": "{}", "momentum": "b{:g}", "community_size": "k{}"}


def attack_key(**labels: Any) -> str:
    """Return the key of an attack's results, built from its labels, such as ``single/ndcg/b0.99/k50``.

    Labels other than observer, relevance, momentum and community size are spelled out: ``coordinator/depth=3``.
    """
    return "/".join(_FORMS.get(name, f"{name}={{}}").format(value) for name, value in labels.items())
