"""Comparison of values of a measure, of which a higher or a lower one is better."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gossiprec.base.rounding import difference
from gossiprec.measures.selectors import BASELINES, OF_ATTACKS, read_metric

LOWER_IS_BETTER = (
    "bytes.",
    "privacy.epsilon",
    "item_auc",
    "user_auc",
    "attribute_auc",
    "reconstruction_f1",
    "mia_",
    "train_loss",
)
"""Beginnings of the names of other measures than metrics of which a lower value is better."""


def better_sign(name: str) -> int:
    """Return 1 if a higher value of a measure is better for users, -1 if a lower one is, and 0 if neither is known.

    Values of a metric at the validated report, of a group of users or of a target item have its direction. Values that
    no model or attack reaches, such as ``hr@20[popularity]`` and ``item_auc_popularity``, have none.
    """
    metric, _, about = name.partition("[")
    if about.removesuffix("]") in BASELINES or name.endswith("_popularity"):
        return 0
    if name in OF_ATTACKS:
        return -1 if name in ("max_aac", "last_aac", "best10_mean", "best10_min", "exposure_defended") else 0
    if name.startswith(LOWER_IS_BETTER):
        return -1
    try:
        return -1 if read_metric(metric).measure.lower_is_better else 1
    except ValueError:
        return 0


def compare_values(name: str, value: float, other: float) -> float:
    """Return by how much a value of a measure is better than another value of it.

    Returns
    -------
    float
        Above 0 if it is better, below 0 if it is worse, 0 if both are equal but for rounding errors
        (:mod:`gossiprec.base.rounding`); NaN if a value is NaN or the direction of the measure is unknown.
    """
    return (better_sign(name) or math.nan) * difference(value, other)


def best_place(name: str, values: Sequence[float]) -> int | None:
    """Return the index of the best value of a measure, the first on ties.

    None if no value is a number, or the direction of the measure is unknown.
    """
    best = None
    for place, value in enumerate(values if better_sign(name) else ()):
        if not math.isnan(value) and (best is None or compare_values(name, value, values[best]) > 0):
            best = place
    return best
