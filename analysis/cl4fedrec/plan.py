"""The plan of the study, from ``plan.yaml``: settings, rows, methods, and the experiments that names select."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class ExperimentName:
    """The parts of an experiment's name.

    Attributes
    ----------
    setting : str
        Split and loop, such as ``file-adam5``.
    method : str
    """

    setting: str
    method: str

    @property
    def split(self) -> str:
        """The split, such as ``file``."""
        return self.setting.partition("-")[0]

    @property
    def loop(self) -> str:
        """The loop, such as ``adam5``."""
        return self.setting.partition("-")[2]

    @staticmethod
    def read(name: str) -> ExperimentName:
        """Return the parts of a name."""
        split, loop, method = name.split("-", 2)
        return ExperimentName(f"{split}-{loop}", method)


def defence_methods(attack: str) -> dict[str, str]:
    """Return the methods that combine an attack with each defence, by the defence's label."""
    found: dict[str, str] = ARMS["exposure"][attack]
    return found
