"""The marker of slow tests, for some parameters of a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_except_first(values: Iterable[Any]) -> list[Any]:
    """Return parameters of which all but the first are marked slow: the first stands for them in a quick run."""
    return [_slow(value) if number else value for number, value in enumerate(values)]


def _slow(value: Any) -> Any:
    if hasattr(value, "marks"):  # made by pytest.param
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.slow], id=value.id)
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.slow)
