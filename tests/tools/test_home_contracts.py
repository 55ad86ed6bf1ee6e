"""The contracts of homes: each rule finds its breaks in a small graph, and the list of exceptions does not grow."""

import pytest
from grimp import ImportGraph

from tools.home_contracts import EXCEPTIONS, find_breaks, read_homes, read_rows

MOST_EXCEPTIONS = 20
HOMES = {
    "words": "core/words",
    "split": "parts/splits",
    "plan": "core/plan",
    "look": "core/observe",
    "truth": "core/judge",
    "loop": "core/run",
    "leaf": "parts/models",
    "other": "parts/rules",
    "studies": "workbench/study",
}


def breaks(*imports):
    graph = ImportGraph()
    for name in HOMES:
        graph.add_module(name)
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    return [(each.importer, each.imported) for each in find_breaks(graph, HOMES)]


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("words", "plan"),  # up
        ("plan", "leaf"),  # out of the core
        ("loop", "studies"),
        ("leaf", "other"),  # between parts
        ("leaf", "studies"),
        ("studies", "truth"),  # to the truth
        ("leaf", "truth"),
    ],
)
def test_an_import_that_does_not_fit_is_found(importer, imported):
    assert breaks((importer, imported)) == [(importer, imported)]


def test_imports_down_and_into_the_core_fit():
    assert breaks(("plan", "words"), ("leaf", "plan"), ("loop", "truth"), ("studies", "leaf")) == []


def test_an_attack_must_not_reach_the_truth_through_others():
    hidden = ("look", "plan"), ("plan", "split")
    assert ("look", "plan") in breaks(*hidden)
    assert ("look", "plan") not in breaks(hidden[0])


def test_the_exceptions_are_in_the_table_and_do_not_grow():
    rows, homes = read_rows(EXCEPTIONS), read_homes()
    assert len(rows) <= MOST_EXCEPTIONS, "correct the import, or the home of its module; no new exception"
    assert len({(importer, imported) for importer, imported, _ in rows}) == len(rows)
    assert {name for row in rows for name in row[:2]} <= homes.keys()
    assert {ended_by for *_, ended_by in rows} <= {
        "layers and run parts",
        "seams",
        "one training path",
        "new tree",
    }
