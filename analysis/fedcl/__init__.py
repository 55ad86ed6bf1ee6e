"""The study of FedCL on Amazon Beauty and MovieLens-1M, compared with the paper, and the leakage of user uploads.

python -m analysis.fedcl --data ../shared/data --out study/
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path

from analysis.papers import comparison
from analysis.papers.study_file import PaperStudyFile
from analysis.papers.tables import FederatedRow, FederationPrice, SummaryColumns

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))
PAPER = comparison.load_comparison(STUDY)
SETTINGS, TABLE_ROWS, ARMS = PAPER.settings, PAPER.rows, STUDY.plan["arms"]
MODELS, WAYS = ARMS["models"], ARMS["ways"]
WHOLE, SWEPT = "GRU4Rec+FedCL", "gru4rec-fedcl"
"""The row and the method with swept options, on Beauty."""
ABLATIONS = {row: method for row, method in TABLE_ROWS["ablations"].items() if row != WHOLE}
"""Method by the part that is left out or replaced."""
SWEEPS: dict[str, dict[float, str]] = ARMS["sweeps"]
"""Method by option of FedCL and its value, for GRU4Rec on Beauty."""
BEST_VALUES: dict[str, float] = ARMS["best_values"]
"""The best values according to the paper."""
EPSILON: dict[float, str] = ARMS["epsilon"]
"""Method by budget of a user upload."""
SPREAD: dict[float, str] = ARMS["spread"]
"""Method by weight of the term of BIL that spreads items out."""
LEAKAGE = SummaryColumns(**STUDY.plan["leakage"])
UTILITY = ("HR@10", "nDCG@10")
"""The metrics shown next to leakage and to centralised training."""


def methods_with_uploads(setting: str) -> dict[str, str]:
    """Return the methods of a setting in which clients upload vectors, by label."""
    found = {f"{model}+FedCL": f"{own}-fedcl" for model, own in MODELS.items()}
    if setting == "beauty":
        found |= {f"{WHOLE}, {_budget(value)}": own for value, own in EPSILON.items() if own != SWEPT}
    return found


def federated_rows(setting: str) -> Iterator[FederatedRow]:
    """Yield every federated row of a setting, next to the centralised row of its model."""
    for model, central in MODELS.items():
        for words, way in WAYS.items():
            experiment = comparison.experiment_name(setting, f"{central}-{way}")
            yield FederatedRow(
                f"{model}+{words}", experiment, model, comparison.experiment_name(setting, central)
            )


PRICE = FederationPrice(PAPER, federated_rows)


def _budget(epsilon: float) -> str:
    return "no noise" if epsilon == inf else f"epsilon {epsilon:g}"
