"""``python -m analysis.perfedrec_pp --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

from analysis.papers.command import StudyCommand
from analysis.papers.comparison import selectable_names
from analysis.perfedrec_pp import STUDY

if __name__ == "__main__":
    StudyCommand(STUDY, selectable_names(STUDY), "analysis.perfedrec_pp.report").main()
