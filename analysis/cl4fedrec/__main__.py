"""``python -m analysis.cl4fedrec --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys

from analysis.cl4fedrec.plan import STUDY, find_data, paper_study, selectable_names
from analysis.papers.command import StudyCommand
from gossiprec.cli.main import exit_code

COMMAND = StudyCommand(
    file=STUDY,
    subjects=selectable_names(),
    about="Run or resume the experiments of the CL4FedRec paper (arXiv 2403.20107) on MovieLens-1M, and "
    "write a report that compares them with the published results. The full study takes half a day; "
    "select with --only, --seeds and --epochs.",
    data="Holds ml-1m.",
    only="Run only these, such as table2-file-adam5,exposure-a-hum or an experiment; see --list.",
    place=lambda data, scale: (find_data(data, scale), {}),
    study_of=paper_study,
    report="analysis.cl4fedrec.report",
)

if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], COMMAND.made(), name="python -m analysis.cl4fedrec"))
