"""``python -m analysis.pdc_frs --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys

from analysis.papers.command import StudyCommand
from analysis.papers.comparison import selectable_names
from analysis.pdc_frs.plan import STUDY
from gossiprec.cli.main import exit_code

COMMAND = StudyCommand(STUDY, selectable_names(STUDY), "analysis.pdc_frs.report")

if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], COMMAND.build(), name="python -m analysis.pdc_frs"))
