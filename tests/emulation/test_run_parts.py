"""Run parts: the core of a run names none of them, and a new one is one class."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import gossiprec
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.run.run_part import RUN_PARTS, RunPart
from tests.emulation.ended_early import OFTEN
from tests.emulation.tiny_runs import tiny

MOST_FIELDS = 14
"""Fields of what every run has; a mechanism that some runs have belongs into a part."""
MEASURE = "norm_of_change"


class NormOfChange(RunPart):
    """The norm of what the merged numbers of each node's model changed by since the last report."""

    checkpointed = ("models",)

    def __init__(self, run):
        super().__init__(run)
        self._models = self._read()

    def _read(self):
        prepared, components = self._run.prepared, self._run.prepared.components
        nodes = np.arange(components.protocol.n_nodes)
        models = prepared.executor.store.models(prepared.planner.current_rows, nodes)
        return models[:, components.layout.merged].astype(np.float64)

    def after_utility(self, report):
        """Add the norm of each node."""
        before, self._models = self._models, self._read()
        report.per_node[MEASURE] = np.arange(len(before)), np.linalg.norm(self._models - before, axis=1)
        return False


@pytest.fixture
def with_norms(monkeypatch):
    list(RUN_PARTS)
    monkeypatch.setattr(RUN_PARTS, "_members", {**RUN_PARTS._members, "a-norm": NormOfChange})


@pytest.mark.parametrize("record", [RunComponents, PreparedRun])
def test_what_every_run_has_stays_small(record):
    assert len(fields(record)) <= MOST_FIELDS, "a mechanism that some runs have belongs into a part"


def test_a_run_in_progress_has_nothing_that_is_absent(tmp_path):
    with gossiprec.prepare(tiny(), out=tmp_path / "run") as run:
        absent = [name for name, value in vars(run._active).items() if value is None]
    assert not absent


def test_a_new_mechanism_is_one_class_and_goes_on_after_a_resume(with_norms, tmp_path):
    scenario = tiny(evaluate={"every": 1, "metrics": ["hr@5"], "by_user": "all"}, checkpoint=OFTEN)
    whole = gossiprec.simulate(scenario, out=tmp_path / "whole")
    with gossiprec.prepare(scenario, out=tmp_path / "parts") as run:
        run.step()
        run.step()
    resumed = gossiprec.resume(tmp_path / "parts")

    values = whole.by_user
    norms = values["value"][values["metric"] == MEASURE]
    assert len(norms) == len(set(whole.metrics["time"])) * len(set(values["user"]))
    assert (norms > 0).any()
    name = "metrics_by_user.parquet"
    assert (whole.path / name).read_bytes() == (resumed.path / name).read_bytes()
