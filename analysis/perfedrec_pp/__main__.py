"""``python -m analysis.perfedrec_pp --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys

from analysis.papers.command import StudyCommand
from analysis.papers.study_file import missing_data
from analysis.perfedrec_pp.plan import DATA, STUDY, dataset_name, experiments, paper_study, selectable_names
from gossiprec.cli.main import exit_code

COMMAND = StudyCommand(
    file=STUDY,
    subjects=selectable_names(),
    about="Run or resume the experiments of the PerFedRec++ paper on Yelp, and write a report that "
    "compares them with the published results, and states which users benefit from personal models. "
    "Select with --only, --seeds and --epochs.",
    data="Folder that contains yelp: train.txt, valid.txt and test.txt.",
    only="Run only these, such as federated-paper,noise or an experiment; see --list.",
    place=lambda data, scale: (
        data,
        missing_data(experiments(), DATA, dataset_name, data=data, scale=scale),
    ),
    study_of=paper_study,
    report="analysis.perfedrec_pp.report",
)

if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], COMMAND.made(), name="python -m analysis.perfedrec_pp"))
