"""Rows of nodes in files: the same bytes as in memory, and one message if the disk cannot hold them."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import numpy as np
import pytest

from gossiprec.base import mapped_file
from gossiprec.base.errors import ResourceError, ScenarioError
from gossiprec.compute import waves
from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.store.arena import MappedRows
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.emulation.estimate.estimate import estimate_run
from gossiprec.runs import checkpoints, open_run
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import Patient, ended_early, often, outcome
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, carried_out, final_models, tiny
from tests.slow import slow_except_first

AWHILE = {"law": "exponential", "mean": 2.0}
RUNS = {
    "gossip": {"observers": [SINGLE, {**SINGLE, "who": "coalition", "fraction": 0.5}]},
    "reset": {"churn": {"model": "reset", "sessions": [{"online": AWHILE, "offline": AWHILE}]}},
    "rewritten": {"policies": [{"name": "share-less", "nodes": {"fraction": 0.5}}], "training": {"optimizer": "sgd"}},
    "fedavg": {"protocol": {"name": "fedavg", "rounds": 4, "participation": 0.5}, "observers": [COORDINATOR]},
}  # fmt: skip


def mapped(folder, **executor):
    """Return the section of an executor with rows in files."""
    return {"name": "fused", "storage": "mapped", "folder": str(folder), **executor}


@pytest.mark.parametrize(
    ("run", "executor"), slow_except_first([("gossip", "fused"), *((run, "fused") for run in RUNS if run != "gossip"),
                                            *(("gossip", name) for name in EXECUTORS if name != "fused")])
)  # fmt: skip
@pytest.mark.cases(2)
def test_rows_in_files_are_byte_identical_to_rows_in_memory(run, executor, tmp_path, monkeypatch):
    monkeypatch.setattr(waves, "READ_AHEAD", 2)
    chosen = {"name": executor, "threads": 2}
    expected = carried_out(tiny(**RUNS[run], executor=chosen))
    found = carried_out(tiny(**RUNS[run], executor=mapped(tmp_path, **chosen)))

    assert isinstance(found.executor.work.arena._reserved, MappedRows)
    assert final_models(found).tobytes() == final_models(expected).tobytes()
    for one, other in zip(found.attacks, expected.attacks, strict=True):
        for ranking, like in zip(one.rankings(), other.rankings(), strict=True):
            assert ranking.scores.tobytes() == like.scores.tobytes()
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.full
def test_a_mapped_run_is_resumed_with_its_state_in_files(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "MAPPED_BYTES", 1)
    read, make = [], checkpoints.make_mapped_array
    monkeypatch.setattr(
        checkpoints, "make_mapped_array", lambda folder, *of: read.append(folder) or make(folder, *of)
    )
    whole = simulate(often(executor={"name": "fused"}), out=tmp_path / "whole")
    for name, stop in (("mapped", None), ("broken", 4)):
        scenario = often(executor=mapped(tmp_path / "rows", threads=2))
        (tmp_path / "rows").mkdir(exist_ok=True)
        run = (
            ended_early(tmp_path / name, scenario, stop) if stop else simulate(scenario, out=tmp_path / name)
        )
    done = resume(run.path)

    assert set(read) == {tmp_path / "rows"}
    assert outcome(done.path) == outcome(tmp_path / "mapped")
    assert done.log.digest == whole.log.digest
    assert (done.path / "metrics.csv").read_bytes() == (whole.path / "metrics.csv").read_bytes()
    assert os.listdir(tmp_path / "rows") == []


@pytest.mark.slow
@pytest.mark.full
def test_the_run_waits_until_a_checkpoint_of_mapped_rows_is_written(tmp_path, monkeypatch):
    from gossiprec.emulation.run.report_actions import CheckpointWriter

    left = []
    start = CheckpointWriter.start_if_due

    def starts(self, *args, **options):
        start(self, *args, **options)
        left.append(self._writer)

    monkeypatch.setattr(CheckpointWriter, "start_if_due", starts)
    run = often(executor=mapped(tmp_path), checkpoint={"minutes": 1e-9})
    done = simulate(run, out=tmp_path / "run", progress=Patient())

    assert set(left) == {None}
    assert done.manifest["status"] == "complete"


def test_an_estimate_counts_mapped_rows_as_disk(tmp_path):
    plain, moved = (
        estimate_run(load_scenario(tiny(executor=chosen))) for chosen in ({"name": "fused"}, mapped(tmp_path))
    )

    rows = {part: plain.memory_bytes[part] for part in ("parameters", "versions in waiting", "moments")}
    assert (moved.disk_bytes, plain.disk_bytes) == (rows, {})
    assert {part: size for part, size in plain.memory_bytes.items() if part not in rows} == moved.memory_bytes
    arena = prepare(load_scenario(tiny(executor=mapped(tmp_path)))).executor.work.arena
    files = [arena._reserved, *arena._moments]
    assert sum(each._file._claimed for each in files) == sum(rows.values())


def test_rows_claim_disk_space_before_they_are_written(tmp_path):
    rows = MappedRows(1000, 1024, np.float32, tmp_path)
    rows.claim(10)
    rows.rows[:10] = 1
    status = os.fstat(rows._file._file.fileno())

    assert 10 * 4096 <= status.st_blocks * 512 < 500 * 4096, "the rest of the file is sparse"
    arena = carried_out(tiny(executor=mapped(tmp_path))).executor.work.arena
    used = np.flatnonzero(arena.rows.any(axis=1)).max() + 1
    assert used * arena._reserved._row_bytes <= arena._reserved._file._claimed
    arena.store(np.array([40]), np.ones((1, arena.layout.row_size), np.float32), None)
    assert arena._reserved._file._claimed >= 41 * arena._reserved._row_bytes


@pytest.mark.parametrize("way", ["known", "while reserving"])
def test_a_full_disk_is_one_message(way, tmp_path, monkeypatch):
    free = 1000 if way == "known" else 2**40

    def fails(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(mapped_file.shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    monkeypatch.setattr(os, "posix_fallocate", fails)
    scenario = load_scenario(tiny(executor=mapped(tmp_path)))
    with pytest.raises(
        ResourceError, match=r"need 0 MiB in .*, but only [\d,]+ MiB are free there; free disk"
    ):
        prepare(scenario)
    if way == "known":
        with pytest.raises(ResourceError, match="rows of nodes"):
            estimate_run(scenario).check_fits()
    assert os.listdir(tmp_path) == []


class DiskFills(Patient):
    """Lets the disk fill after the third report, when the rows need more space."""

    def __init__(self, monkeypatch):
        super().__init__()
        self._patch = monkeypatch

    def tick(self, status):
        super().tick(status)
        if len(self.ticks) == 3:
            for file in mapped_file._OPEN:
                file._claimed = 0
            self._patch.setattr(mapped_file.shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))


@pytest.mark.slow
@pytest.mark.full
def test_a_run_on_a_disk_that_fills_is_failed_and_resumed(tmp_path, monkeypatch):
    scenario = often(executor=mapped(tmp_path), checkpoint={"minutes": 1e-9})
    with monkeypatch.context() as patched, pytest.raises(ResourceError, match="free disk space"):
        simulate(scenario, out=tmp_path / "run", progress=DiskFills(patched))

    assert open_run(tmp_path / "run").manifest["status"] == "failed"
    done, whole = resume(tmp_path / "run"), simulate(scenario, out=tmp_path / "whole")
    assert outcome(done.path) == outcome(whole.path)


REFUSED = {
    "no-such": ({"executor": mapped("no-such")}, "executor.folder: found 'no-such', in which no file can be written"),
    "shards": (
        {"executor": mapped("", name="ray", shards=2)}, "found storage: mapped with shards: 2; expected rows on one",
    ),
    "cuda": ({"executor": mapped("", name="batched", device="cuda")}, "found storage: mapped with device: cuda"),
    "folder": ({"executor": {"folder": "x"}}, "folder requires storage: mapped, found storage: float32"),
    "central": (
        {"protocol": {"name": "central", "epochs": 2}, "executor": {"storage": "mapped"}},
        "executor.storage: found 'mapped'; expected float32",
    ),
    "updates": (
        {"protocol": {"name": "fedavg", "rounds": 2, "client_model": "none"}, "executor": {"storage": "mapped"}},
        "executor.storage: found 'mapped'; expected 'float32'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("problem", REFUSED)
def test_rows_that_cannot_be_mapped_are_refused(problem):
    sections, message = REFUSED[problem]
    with pytest.raises(ScenarioError) as caught:
        prepare(load_scenario(tiny(observers=[], **sections)))
    assert message in str(caught.value)
