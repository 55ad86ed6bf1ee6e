"""``python -m analysis.pdc_frs --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

from analysis.papers.command import StudyCommand
from analysis.papers.comparison import selectable_names
from analysis.pdc_frs import STUDY

if __name__ == "__main__":
    StudyCommand(STUDY, selectable_names(STUDY), "analysis.pdc_frs.report").main()
