"""The suites of tests: what each leaves out, and which cases of a family it runs."""

from __future__ import annotations

import pytest

from tests.suites import select_tests


class Test:
    """A collected test."""

    __test__ = False

    def __init__(self, nodeid: str, *markers: str, cases: int | None = None) -> None:
        self.nodeid, self._markers = nodeid, dict.fromkeys(markers, pytest.mark.slow.mark)
        if cases is not None:
            self._markers["cases"] = pytest.mark.cases(cases).mark

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._markers.get(name)


def names(items, suite):
    return [item.nodeid for item in select_tests(items, suite)]


def test_each_suite_leaves_out_its_markers():
    items = [Test("quick"), Test("slow", "slow"), Test("full", "full"), Test("both", "slow", "full")]
    assert names(items, "fast") == ["quick"]
    assert names(items, "gate") == ["quick", "slow"]
    assert names(items, "all") == ["quick", "slow", "full", "both"]


@pytest.mark.parametrize(
    ("suite", "cases"), [("fast", [0, 22]), ("gate", [0, 2, 4, 7, 9, 12, 14, 17, 19, 22])]
)
def test_a_suite_runs_cases_spread_evenly(suite, cases):
    items = [Test("single"), *(Test(f"family[{case}-[x]]") for case in range(23)), Test("single2")]
    chosen = ["single", *(f"family[{case}-[x]]" for case in cases), "single2"]
    assert names(items, suite) == chosen
    assert names(items, "all") == [item.nodeid for item in items]


def test_cases_are_chosen_among_those_that_are_not_left_out():
    items = [
        Test("family[a]"),
        *(Test(f"family[slow{case}]", "slow") for case in range(5)),
        Test("family[b]"),
    ]
    assert names(items, "fast") == ["family[a]", "family[b]"]


@pytest.mark.parametrize(
    ("cases", "gate", "fast"), [(1, [0], [0]), (2, [0, 29], [0, 29]), (1000, list(range(30)), [0, 29])]
)
def test_a_test_says_how_many_cases_the_gate_runs(cases, gate, fast):
    items = [Test(f"family[{case}]", cases=cases) for case in range(30)]
    assert names(items, "gate") == [f"family[{case}]" for case in gate]
    assert names(items, "fast") == [f"family[{case}]" for case in fast]
    assert len(names(items, "all")) == 30
