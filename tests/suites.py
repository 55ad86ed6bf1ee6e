"""Which tests a suite runs: ``fast`` for each save, ``gate`` for CI, ``all`` for everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

LEFT_OUT = {"fast": {"slow", "full"}, "gate": {"full"}, "all": set()}
"""Suite: the markers of the tests that it leaves out."""
CASES = {"fast": 3, "gate": 10}
"""Suite: how many cases it runs of a test with parameters. They are spread evenly over its parameters. The marker
``cases`` says another number for the gate, and a smaller one for ``fast``, too."""
EXAMPLES = {"fast": 10, "gate": 25, "all": 100}
"""Suite: how many examples hypothesis draws for a property that does not say it."""


def select_tests(items: Iterable[Any], suite: str) -> list[Any]:
    """Return the tests of a suite, in their order.

    Parameters
    ----------
    items : iterable of pytest.Item
        All tests that were collected.
    suite : str
        A key of :data:`LEFT_OUT`.
    """
    families: dict[str, list[Any]] = {}
    for item in items:
        if not any(item.get_closest_marker(name) for name in LEFT_OUT[suite]):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = {id(item) for family in families.values() for item in _representatives(family, suite)}
    return [item for item in items if id(item) in chosen]


def _representatives(family: list[Any], suite: str) -> Iterator[Any]:
    """Yield the cases of one test that a suite runs."""
    number = len(family)
    if suite in CASES:
        marker = family[0].get_closest_marker("cases")
        said = marker.args[0] if marker else CASES["gate"]
        number = min(number, said if suite == "gate" else min(said, CASES[suite]))
    if number == 1:
        yield family[0]
        return
    for case in range(number):
        yield family[case * (len(family) - 1) // (number - 1)]
