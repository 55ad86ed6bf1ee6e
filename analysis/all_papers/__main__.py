"""``python -m analysis.all_papers --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys

from analysis.all_papers.plan import STUDY, selectable_names
from analysis.papers.command import StudyCommand
from gossiprec.cli.main import exit_code

COMMAND = StudyCommand(STUDY, selectable_names(), "analysis.all_papers.report")

if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], COMMAND.build(), name="python -m analysis.all_papers"))
