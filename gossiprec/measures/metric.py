"""Names of metrics in a scenario: ``[val_][full_]name@K``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gossiprec.base.errors import ScenarioError
from gossiprec.measures import MEASURES, Measure, RelevantRanks, ValidationRanks

SAMPLED = 99
"""Number of items without an interaction of the user that are drawn to rank each test item among."""
ON_VALIDATION = "val_"
"""Prefix of metrics that rank validation items in place of test items."""
RETIRED = {"full_hr": "recall"}
"""Former names of metrics, and their present names; results of older runs must not be misread."""

_FORM = re.compile(r"(val_)?(full_)?([^@\s]+)@([1-9][0-9]{0,5})", re.ASCII)


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
    form = _FORM.fullmatch(text)
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
