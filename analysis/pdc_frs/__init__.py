"""The study of PDC-FRS on MovieLens-1M and Amazon Office, compared with the paper, and the leakage of contributions.

python -m analysis.pdc_frs --data ../shared/data --out study/
"""

from __future__ import annotations

from pathlib import Path

from analysis.papers import comparison
from analysis.papers.study_file import PaperStudyFile
from analysis.papers.tables import SummaryColumns

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))
PAPER = comparison.load_comparison(STUDY)
SETTINGS, TABLE_ROWS, ARMS = PAPER.settings, PAPER.rows, STUDY.plan["arms"]
ROWS = TABLE_ROWS["table1"]
WEIGHTS: dict[str, dict[float, str]] = ARMS["weights"]
"""Method by the paper's letter of an option and its value."""
LEAKAGE = SummaryColumns(**STUDY.plan["leakage"])


def methods_by_epsilon(setting: str) -> dict[str, dict[float, str]]:
    """Return the methods of a setting by similarity and budget of an item."""
    found: dict[str, dict[float, str]] = ARMS["epsilon"][setting]
    return found
