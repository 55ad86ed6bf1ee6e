"""``python -m analysis.cl4fedrec --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

from analysis.cl4fedrec import STUDY
from analysis.papers.command import StudyCommand
from analysis.papers.comparison import selectable_names

if __name__ == "__main__":
    StudyCommand(STUDY, selectable_names(STUDY), "analysis.cl4fedrec.report").main()
