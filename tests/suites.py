"""Which tests a suite runs: ``fast`` for each save, ``gate`` for CI, ``all`` for everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

CASES = {"gate": 10, "fast": 2}
"""Suite: how many cases of a test with parameters it runs, spread evenly. The marker ``cases`` says another number for
the gate. The fast suite chooses among the cases of the gate."""
EXAMPLES = {"fast": 10, "gate": 25, "all": 100}
"""Suite: how many examples hypothesis draws for a property that does not say it."""


def select_tests(items: Iterable[Any], suite: str) -> list[Any]:
    """Return the tests of a suite, in their order.

    Parameters
    ----------
    items : iterable of pytest.Item
        All tests that were collected.
    suite : str
        A key of :data:`EXAMPLES`.
    """
    chosen = list(items)
    if suite != "all":
        chosen = _spread(_without(chosen, "full"), "gate")
    if suite == "fast":
        chosen = _spread(_without(chosen, "slow"), "fast")
    return chosen


def _without(items: list[Any], marker: str) -> list[Any]:
    return [item for item in items if not item.get_closest_marker(marker)]


def _spread(items: list[Any], suite: str) -> list[Any]:
    """Return the tests, and of a test with many cases some."""
    families: dict[str, list[Any]] = {}
    for item in items:
        families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = set()
    for family in families.values():
        marker = family[0].get_closest_marker("cases") if suite == "gate" else None
        number = min(len(family), marker.args[0] if marker else CASES[suite])
        chosen |= {id(family[case * (len(family) - 1) // max(number - 1, 1)]) for case in range(number)}
    return [item for item in items if id(item) in chosen]
