"""The core asks for no registered name of a part: names leave the core, but for a list that only shrinks."""

import ast

import pytest

from tools.core_names import Question, find_questions, read_modules
from tools.home_contracts import read_homes

PARTS = {
    ("gossiprec.emulation.assembly.carrier", "shards"),  # which carrier a scenario asks for
    ("gossiprec.emulation.assembly.carrier", "versions"),
    ("gossiprec.emulation.assembly.memory", "central"),  # the memory of torch in runs of a central model
}
"""Modules of the core that ask for a part. No new ones: let the part say what the core wants to know."""
OTHER_MEANINGS = {
    "adam": {  # the optimizer of nodes; the part is a server
        "compute.executors.batched", "compute.scorer", "models.base", "models.base.kernel_interface", "modes",
        "modes.client_updates", "modes.whole_models",
    },
    "complete": {  # the status of a run; the part is a topology
        "emulation.run.active_run", "emulation.run.live_run", "emulation.run.simulate", "runs.run",
        "runs.run_directory", "runs.run_files",
    },
    "file": {"emulation.assembly.network_setup"},  # the law of rates; the part is a data set
    "files": {"runs.manifest"},  # a section of the manifest; the part is a data set
    "momentum": {"emulation.scoring.attack_results", "measures.selectors"},  # of CDA; the part is a server
    "ndcg": {"numerics.relevance"},  # a rule of CDA; the part is a measure
    "random": {  # places, orders and baselines; the part is a split
        "adversaries.attacks.findings", "emulation.assembly.network_setup", "emulation.scoring.metric_inputs",
        "measures.selectors", "network.graphs.centrality", "network.sim.clock",
    },
    "sum": {"models.base", "rules.aggregators.deltas"},  # of losses and deltas; the part is a rule
    "sums": {"network.protocols", "scenario.sections"},  # what a coordinator sees
    "touched-mean": {"rules.aggregators.deltas"},  # of deltas; the part is a rule
    "trackers": {"scenario.registries"},  # a kind of parts; the part is a run part
    "versions": {"compute.plan.planner", "scenario.sections"},  # a table of the planner, and a key
}  # fmt: skip
"""Words that mean something else in these modules of gossiprec."""
HOMES = {"loop": "core/run", "star": "parts/graphs", "chain": "core/network"}


def questions(source):
    """Return the names for which a module of the core asks, next to one part and one member of the core."""
    sources = {
        "loop": source,
        "star": "@FAMILIES.register('star')\ndef draw(): ...",
        "chain": "@register_family('chain', n=1)\ndef draw(): ...",
    }
    return {each.name for each in find_questions({k: ast.parse(v) for k, v in sources.items()}, HOMES)}


def test_the_core_asks_for_no_name_of_a_part_but_those_listed():
    known = {(f"gossiprec.{module}", name) for name, modules in OTHER_MEANINGS.items() for module in modules}
    found = find_questions(read_modules(), read_homes())
    assert {Question(*each) for each in known | PARTS} == found


@pytest.mark.parametrize(
    "source",
    [
        "if graph.name == 'star': pass",
        "if 'star' != name: pass",
        "if name in ('torus', 'star'): pass",
        "match name:\n    case 'torus' | 'star': pass",
        "draw = {'star': 1, 'torus': 2}[name]",
        "draw = {'star': 1}.get(name)",
        "SIZES = {'star': 1}",
        "LINKED: frozenset[str] = frozenset({'star'})",
        "draw = FAMILIES['star']",
    ],
)
def test_a_question_for_a_part_is_found(source):
    assert questions(source) == {"star"}


@pytest.mark.parametrize(
    "source",
    ["raise ValueError('choose star')", "x = 'star'", "if name == 'chain': pass", "kind: Literal['star']"],
)
def test_messages_defaults_and_names_of_the_core_are_no_questions(source):
    assert questions(source) == set()
