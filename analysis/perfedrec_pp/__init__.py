"""The study of PerFedRec++ on Yelp, compared with the paper: ablations, and gains from personal models.

python -m analysis.perfedrec_pp --data ../shared/data --out study/
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from analysis.papers import comparison
from analysis.papers.comparison import experiment_name
from analysis.papers.study_file import PaperStudyFile
from analysis.papers.tables import FederatedRow, FederationPrice

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))
PAPER = comparison.load_comparison(STUDY)
SETTINGS, TABLE_ROWS, ARMS = PAPER.settings, PAPER.rows, STUDY.plan["arms"]
CENTRAL, FEDERATED, COUNTERPARTS = ARMS["central"], ARMS["federated"], ARMS["counterparts"]
"""Method by row, and the centralised row with the same model by federated row."""
CENTRAL_SETTING = "paper"
"""The only setting in which centralised rows are run, since they have no loop of clients."""
WHOLE, GLOBAL = "PerFedRec++", "no personalisation"
ABLATIONS: dict[str, str] = ARMS["ablations"]
"""Method by the part that is left out; without pre-training it is PerFedRec, as published."""
SWEEPS: dict[str, dict[float, str]] = ARMS["sweeps"]
"""Method by option and value, in setting `scaled`."""
VIEWS: dict[str, str] = ARMS["views"]
"""Views of pre-training: of the published code, and of the paper's equations."""


def central_experiment(row: str) -> str:
    """Return the experiment of a centralised row."""
    return experiment_name(CENTRAL_SETTING, CENTRAL[row])


def federated_rows(setting: str) -> Iterator[FederatedRow]:
    """Yield every federated row of a setting, next to the centralised row of its model."""
    for row, central in COUNTERPARTS.items():
        yield FederatedRow(
            row, experiment_name(setting, FEDERATED[row]), central, central_experiment(central)
        )


PRICE = FederationPrice(PAPER, federated_rows)
