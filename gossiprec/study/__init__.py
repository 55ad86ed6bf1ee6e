"""Studies: a base scenario, axes that vary, seeds, and one tidy table of results.

The package can be called: ``gossiprec.study("churn.yaml")`` is :func:`gossiprec.study.api.study`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossiprec.study.api import StudyResult


class _Callable(ModuleType):
    """A package that can be called like its function of the same name, which cannot share the name in the parent."""

    def __call__(self, *arguments: Any, **options: Any) -> StudyResult:
        """Run a study; see :func:`gossiprec.study.api.study`."""
        from gossiprec.study.api import study

        return study(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
