"""Studies: a base scenario, what varies, seeds, and one tidy table of what came out.

The package can be called: ``gossiprec.study("churn.yaml")`` is :func:`gossiprec.study.api.study`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossiprec.study.result import StudyResult


class _Callable(ModuleType):
    """A package that is called like the function of its name: one cannot stand beside the other in its parent."""

    def __call__(self, *arguments: Any, **options: Any) -> StudyResult:
        """Run a study; see :func:`gossiprec.study.api.study`."""
        from gossiprec.study.api import study

        return study(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
