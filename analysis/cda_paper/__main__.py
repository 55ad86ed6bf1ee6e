"""``python -m analysis.cda_paper --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys
from pathlib import Path

from analysis.cda_paper.experiments import STUDY, dataset_name
from analysis.cda_paper.plan import selectable_names
from analysis.papers.command import StudyCommand
from gossiprec.cli.main import exit_code


def _line(name: str) -> str:
    """Return an experiment with its scenario and its data set."""
    return f"{name}  ({Path(STUDY.experiments[name]['base']).name}, {dataset_name(name)})"


COMMAND = StudyCommand(STUDY, selectable_names(), "analysis.cda_paper.report", _line)

if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], COMMAND.build(), name="python -m analysis.cda_paper"))
