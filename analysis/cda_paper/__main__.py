"""``python -m analysis.cda_paper --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

from pathlib import Path

from analysis.cda_paper import STUDY, dataset_name
from analysis.cda_paper.figures import selectable_names
from analysis.cda_paper.report import REPORT
from analysis.papers.study import StudyCommand


def _line(name: str) -> str:
    """Return an experiment with its scenario and its data set."""
    return f"{name}  ({Path(STUDY.experiments[name]['base']).name}, {dataset_name(name)})"


if __name__ == "__main__":
    StudyCommand(STUDY, selectable_names(), REPORT, _line).main()
