"""``python -m analysis.pdc_frs --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys

from analysis.papers.command import StudyCommand
from analysis.papers.study_file import missing_data
from analysis.pdc_frs.plan import DATA, STUDY, dataset_name, experiments, paper_study, selectable_names
from gossiprec.cli.main import exit_code

COMMAND = StudyCommand(
    file=STUDY,
    subjects=selectable_names(),
    about="Run or resume the experiments of the PDC-FRS paper on MovieLens-1M and Amazon Office, and "
    "write a report that compares them with the published results, and states what contributed data "
    "reveal. Select with --only, --seeds and --epochs.",
    data="Folder that contains ml-1m and amazon/Office_Products.txt.",
    only="Run only these, such as table1-file,epsilon-file or an experiment; see --list.",
    place=lambda data, scale: (
        data,
        missing_data(experiments(), DATA, dataset_name, data=data, scale=scale),
    ),
    study_of=paper_study,
    report="analysis.pdc_frs.report",
)

if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], COMMAND.made(), name="python -m analysis.pdc_frs"))
