"""A file that a run reads and that is changed while the run is interrupted: never mixed in."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import LogError
from gossiprec.emulation import replay, resume, simulate
from tests.emulation.ended_early import ended_early, often, outcome

SESSIONS = "node,time,online\n" + "".join(
    f"{node},{3 + node % 3},0\n{node},{5 + node % 3},1\n" for node in range(12)
)


def with_trace(path):
    return often(churn={"sessions": {"trace": str(path), "end": "hold"}})


def with_delays(path):
    np.save(path, np.full((12, 12), 0.25))
    return often(network={"latency": {"law": "pairs", "path": str(path)}})


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(SESSIONS)
    return path


@pytest.mark.full
def test_a_trace_that_was_edited_is_refused_by_resume_and_told_by_replay(tmp_path, trace):
    run = ended_early(tmp_path / "run", with_trace(trace))
    whole = simulate(with_trace(trace), out=tmp_path / "whole")
    trace.write_text(SESSIONS.replace("4,4,0", "4,3,0"))
    with pytest.raises(
        LogError, match=r"have changed since it began: .*trace\.csv has changed.*--from-start"
    ):
        resume(run.path)
    assert any(line.startswith(f"{trace} was ") for line in replay(whole.path).elsewhere)
    trace.write_text(SESSIONS)
    assert outcome(resume(run.path).path) == outcome(whole.path)
    assert replay(whole.path).elsewhere == ()
    assert set(run.manifest["inputs"]) == {str(trace)}


@pytest.mark.slow
def test_reuse_looks_at_all_files(tmp_path, trace):
    first = simulate(with_trace(trace), out=tmp_path / "run").manifest["started"]
    kept = simulate(with_trace(trace), out=tmp_path / "run", on_exists="reuse")
    assert kept.manifest["inputs"]
    assert kept.manifest["started"] == first
    before = (kept.path / "events.mplog").stat().st_ino
    trace.write_text(SESSIONS.replace("4,4,0", "4,3,0"))
    again = simulate(with_trace(trace), out=tmp_path / "run", on_exists="reuse")
    assert (again.path / "events.mplog").stat().st_ino != before


@pytest.mark.slow
def test_a_matrix_of_delays_is_noted(tmp_path):
    path = tmp_path / "delays.npy"
    run = simulate(with_delays(path), out=tmp_path / "run")
    assert set(run.manifest["inputs"]) == {str(path)}
