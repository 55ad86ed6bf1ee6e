"""The study of CL4FedRec and rCL4FedRec (arXiv 2403.20107) on MovieLens-1M, compared with the paper's numbers.

python -m analysis.cl4fedrec --data ../shared/data --out study/
"""

from __future__ import annotations

from pathlib import Path

from analysis.papers import comparison
from analysis.papers.study_file import PaperStudyFile

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))
PAPER = comparison.load_comparison(STUDY)
SETTINGS, TABLE_ROWS, ARMS = PAPER.settings, PAPER.rows, STUDY.plan["arms"]
RULES: dict[str, str] = ARMS["rules"]
ATTACKS: dict[str, str] = ARMS["attacks"]
"""Labels of aggregation rules and of attacks."""
SYNTHETIC_USERS: dict[float, str] = ARMS["synthetic_users"]
STEPS: dict[float, str] = ARMS["steps"]
STEPS_ATTACKED: dict[float, str] = ARMS["steps_attacked"]
"""Method by value of an option."""


def defence_methods(attack: str) -> dict[str, str]:
    """Return the methods that combine an attack with each defence, by the defence's label."""
    found: dict[str, str] = ARMS["exposure"][attack]
    return found
