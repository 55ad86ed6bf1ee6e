"""The sections of a report on studies and runs, in order."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from gossiprec.base.errors import LogError
from gossiprec.report import sections, study_sections
from gossiprec.report.blocks import Section
from gossiprec.report.runs import ReportRuns
from gossiprec.runs import Run, open_run
from gossiprec.runs.lock import UNKNOWN

STUDY_MARK = "study.json"


def is_study(path: Path) -> bool:
    """Return whether a folder is the folder of a study."""
    return (path / STUDY_MARK).is_file()


def collect_sections(paths: Sequence[Path], home: Path) -> list[Section]:
    """Return the sections of a report on these folders: each study by itself, then all runs together.

    Parameters
    ----------
    paths : sequence of Path
        Run directories and folders of studies.
    home : Path
        The folder of the page.

    Raises
    ------
    LogError
        If a folder is neither, or cannot be read.
    """
    studies = [path for path in paths if is_study(path)]
    found = [section for path in studies for section in _of_study(path, home)]
    runs = [_opened(path) for path in paths if path not in studies]
    return [*found, *(_all_of(sections, ReportRuns(runs)) if runs else ())]


def is_in_progress(paths: Sequence[Path]) -> bool:
    """Return whether any of the runs or studies may still grow."""
    from gossiprec.report.study import is_running

    return any(is_running(path) if is_study(path) else _may_grow(path) for path in paths)


def _may_grow(run: Path) -> bool:
    return open_run(run).status in ("running", UNKNOWN)


def _opened(path: Path) -> Run:
    try:
        return open_run(path)
    except LogError as error:
        raise LogError(f"{error}; it is not a study folder either: it has no {STUDY_MARK}") from None


def _of_study(path: Path, home: Path) -> Iterator[Section]:
    from gossiprec.report.study import read_report_study

    return _all_of(study_sections, read_report_study(path, home))


def _all_of(package: ModuleType, subject: Any) -> Iterator[Section]:
    """Yield the sections that a package's modules make of a subject, in order; a module may yield none."""
    modules = [
        importlib.import_module(f"{package.__name__}.{found.name}")
        for found in pkgutil.iter_modules(package.__path__)
    ]
    for module in sorted(modules, key=lambda module: module.ORDER):
        section = module.section(subject)
        if section is not None:
            yield section
