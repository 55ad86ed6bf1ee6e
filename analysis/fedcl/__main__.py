"""``python -m analysis.fedcl --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys

from analysis.fedcl.plan import DATA, STUDY, dataset_name, experiments, paper_study, selectable_names
from analysis.papers.command import StudyCommand
from analysis.papers.study_file import missing_data
from gossiprec.cli.main import exit_code

COMMAND = StudyCommand(
    file=STUDY,
    subjects=selectable_names(),
    about="Run or resume the experiments of the FedCL paper on Amazon Beauty and MovieLens-1M, and write "
    "a report that compares them with the published results, and states what uploaded vectors "
    "reveal. The full study takes days; select with --only, --seeds and --epochs.",
    data="Folder that contains amazon/Beauty.txt.gz and ml-1m.",
    only="Run only these, such as gru4rec-beauty,epsilon or an experiment; see --list.",
    place=lambda data, scale: (
        data,
        missing_data(experiments(), DATA, dataset_name, data=data, scale=scale),
    ),
    study_of=paper_study,
    report="analysis.fedcl.report",
)

if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], COMMAND.made(), name="python -m analysis.fedcl"))
