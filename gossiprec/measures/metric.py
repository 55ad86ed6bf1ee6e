"""How a scenario asks for a measure of recommendations: ``[val_][full_]name@K``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gossiprec.errors import ScenarioError
from gossiprec.measures import MEASURES, Measure
from gossiprec.measures.base import RelevantRanks, ValidationRanks

SAMPLED = 99
"""Items that the user has not interacted with, drawn for each test item to rank it among."""
ON_VALIDATION = "val_"
"""How names of metrics begin that rank validation items in the place of test items."""
RETIRED = {"full_hr": "recall"}
"""Names under which something was measured that has a name of its own: a run of before must not be mistaken."""

_FORM = re.compile(r"(val_)?(full_)?([^@\s]+)@([1-9][0-9]{0,5})", re.ASCII)


@dataclass(frozen=True)
class MetricSpec:
    """A measure, the rankings it is taken of, and where they are cut.

    Attributes
    ----------
    name : str
        As written.
    measure : type of Measure
    k : int
    full : bool
        Whether all items are ranked; else a test item among the sampled ones.
    on_validation : bool
        Whether validation items are relevant; else test items.
    """

    name: str
    measure: type[Measure]
    k: int
    full: bool
    on_validation: bool = False

    @property
    def looks_at(self) -> type[Any]:
        """What the measure is shown."""
        return ValidationRanks if self.on_validation else self.measure.wants

    @property
    def of_test_items(self) -> bool:
        """Whether it says where test items stand: then users with test items have a value each."""
        return self.looks_at is RelevantRanks


def measure_name(text: str) -> str:
    """Return the registered name in a metric that :func:`read_metric` takes."""
    return text.removeprefix(ON_VALIDATION).removeprefix("full_").partition("@")[0]


def read_metric(text: str) -> MetricSpec:
    """Return the metric that `text` names.

    Raises
    ------
    ValueError
        If there is none; the message says what to write.
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
