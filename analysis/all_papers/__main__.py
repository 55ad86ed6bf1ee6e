"""``python -m analysis.all_papers --data PATH --out study/``: run or resume the study and write its table."""

from __future__ import annotations

from analysis.all_papers import STUDY, selectable_names
from analysis.papers.command import StudyCommand

if __name__ == "__main__":
    StudyCommand(STUDY, selectable_names(), "analysis.all_papers.report").main()
