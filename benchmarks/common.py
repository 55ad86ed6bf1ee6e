"""Output and statistics that all benchmarks use."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any


def say(text: str) -> None:
    """Print progress to stderr."""
    print(text, file=sys.stderr, flush=True)


def emit(**figures: Any) -> None:
    """Print one result as a JSON line; floats to four significant digits."""
    plain = {
        key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in figures.items()
    }
    print(json.dumps(plain), flush=True)


def rate(work: Callable[[], int]) -> float:
    """Return the work per wall second."""
    begin = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - begin)


def median(values: list[float]) -> float:
    """Return the median."""
    return statistics.median(values)
