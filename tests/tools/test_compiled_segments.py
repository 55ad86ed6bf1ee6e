"""The segments of the tiny scenarios that run in the compiled loop over waves: their number may only grow."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

import gossiprec
from gossiprec.base.errors import ScenarioError
from gossiprec.compute import waves
from gossiprec.native.numba_support import is_plain

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
SCENARIOS = importlib.import_module("tiny_scenarios")
sys.path.remove(str(BENCHMARKS))
KNOWN = json.loads(Path(__file__).with_name("compiled_segments.json").read_text())
"""Numbers of compiled segments and of all segments that run waves, by scenario."""
IN_GATE = {
    "average", "averaged-users", "buffered", "cda", "changes", "fedavg", "push-pull", "receive", "rough-network",
    "semi-decentralised",
}  # fmt: skip
"""Scenarios that a quick run counts: whole models of GMF, which share their kernels, in ten mechanisms."""


def note_segments(patch):
    """Return a list that gets, for each segment that runs waves, whether the compiled loop has run them all.

    The compiled loop then takes segments of any size.
    """
    compiled, run_compiled = [], waves.WaveRunner._run_compiled

    def noted(runner, plan):
        done, n_waves = run_compiled(runner, plan), len(plan.task_offsets) - 1
        if n_waves:
            compiled.append(done == n_waves)
        return done

    patch.setattr(waves, "LEAST_TASKS", 1)
    patch.setattr(waves, "LEAST_WAVES", 1)
    patch.setattr(waves.WaveRunner, "_run_compiled", noted)
    return compiled


def count_segments(name, folder):
    """Return the numbers of compiled segments and of all segments of a tiny scenario.

    It runs on one thread, because a busy machine may not start several at once. ``executor: auto`` is ``fused`` if that
    can run the scenario; otherwise the choice would depend on the kernels that earlier runs have left on the disk.
    """
    SCENARIOS.write_inputs(folder / "inputs")
    text = json.dumps(SCENARIOS.SCENARIOS[name]).replace(SCENARIOS.INPUTS, str(folder / "inputs"))
    plain = json.loads(text)
    chosen = plain["executor"]["name"]
    for executor in ["fused", "auto"] if chosen == "auto" else [chosen]:
        plain["executor"] |= {"name": executor, "threads": 1}
        with pytest.MonkeyPatch.context() as patch:
            compiled = note_segments(patch)
            try:
                gossiprec.simulate(plain, out=folder / executor)
            except ScenarioError:
                if executor == chosen:
                    raise
            else:
                break
    return sum(compiled), len(compiled)


def test_every_tiny_scenario_has_a_known_count():
    assert set(KNOWN) == set(SCENARIOS.SCENARIOS)
    assert set(KNOWN) >= IN_GATE


@pytest.mark.skipif(is_plain(), reason="the plain path has no compiled loop over waves")
@pytest.mark.parametrize(
    "name", [name if name in IN_GATE else pytest.param(name, marks=pytest.mark.full) for name in KNOWN]
)
def test_no_segment_leaves_the_compiled_loop(name, tmp_path):
    compiled, total = count_segments(name, tmp_path)
    known_compiled, known_total = KNOWN[name]
    assert compiled >= known_compiled, (compiled, total)
    assert total - compiled <= known_total - known_compiled, (compiled, total)
