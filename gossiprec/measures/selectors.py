"""Names of a run's numbers: ``hr@20``, ``hr@20[popularity]``, ``max_aac[single,standardized,0.99]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
