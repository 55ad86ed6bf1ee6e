"""The plan of the study, from ``plan.yaml``: settings, rows, methods, and the experiments that names select."""

from __future__ import annotations

from pathlib import Path

from analysis.papers import comparison
from analysis.papers.study_file import PaperStudyFile

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
