"""Steps of a wave: their order, and that only the program itself takes over what they have written."""

import ast
from pathlib import Path

import pytest

import gossiprec
from gossiprec.emulation.assembly.prepare import prepare
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny

COLUMNS = {"source", "target", "merge_row", "update"}
"""Columns of a program that no step may change; executors fill others, and weights of merges by performance."""


def changed_columns(source):
    """Return the columns of something called `program` into which a module assigns."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in (each for top in targets for each in getattr(top, "elts", [top])):
            match target:
                case ast.Subscript(value=ast.Attribute(value=owner, attr=column)) if column in COLUMNS:
                    if "program" in ast.unparse(owner):
                        found.add(column)
    return found


@pytest.mark.parametrize(
    "statement",
    [
        "program.source[task] = 1",
        "program.merge_row[a], program.merge_keep[a] = 1, 1.0",
        "self._program.update[:] += 1",
    ],
)
def test_an_assignment_into_a_program_is_found(statement):
    assert changed_columns(statement)


def test_nothing_assigns_into_a_program():
    modules = Path(gossiprec.__file__).parent.rglob("*.py")
    assert [path.name for path in modules if changed_columns(path.read_text())] == []


def test_inboxes_are_reduced_before_parts_are_merged_and_messages_rewritten():
    world = tiny(protocol={"name": "rand-gossip", "average": "all"}, policies=[{"name": "top-k"}])
    runner = prepare(load_scenario(world)).tape_runner()._runner
    names = [type(step).__name__ for step in runner._steps]
    assert names == ["InboxReducer", "PartialMerger", "MessageEncoder"]
