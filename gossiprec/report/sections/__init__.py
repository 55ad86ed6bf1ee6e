"""Sections of a report: functions that make a part of the page from runs or from a study, found by their place.

Every module of this package is imported; `study`, which loads the drawing library, is imported for studies only. A
function with the decorator :func:`run_section` or :func:`study_section` is a section; its `order` is its place on the
page. It returns None if it has nothing to show.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossiprec.report import Section

MakeSection = Callable[[Any], "Section | None"]
_SECTIONS: dict[str, dict[int, MakeSection]] = {"runs": {}, "study": {}}
"""Sections by the kind of their subject and their place on the page."""


def run_section(order: int) -> Callable[[MakeSection], MakeSection]:
    """Return the decorator of a section on :class:`gossiprec.report.sources.ReportRuns`."""
    return _decorator("runs", order)


def study_section(order: int) -> Callable[[MakeSection], MakeSection]:
    """Return the decorator of a section on a :class:`gossiprec.report.sources.ReportStudy`."""
    return _decorator("study", order)


def _decorator(kind: str, order: int) -> Callable[[MakeSection], MakeSection]:
    def register(section: MakeSection) -> MakeSection:
        _SECTIONS[kind][order] = section
        return section

    return register


def make_sections(kind: str, subject: Any) -> Iterator[Section]:
    """Yield the sections on a subject of a kind, ``runs`` or ``study``, in order."""
    for module in pkgutil.iter_modules(__path__):
        if kind == "study" or not module.name.startswith("study"):
            importlib.import_module(f"{__name__}.{module.name}")
    for _, section in sorted(_SECTIONS[kind].items()):
        made = section(subject)
        if made is not None:
            yield made
