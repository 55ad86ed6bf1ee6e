"""Two processes that want one folder: the one that comes second is refused before it has deleted anything."""

from __future__ import annotations

import multiprocessing
import os

import pytest
from small_logs import SIZES, WAKES

from gossiprec.base.errors import LogError
from gossiprec.runs import lock, manifest, run_directory
from gossiprec.runs.run import open_run
from gossiprec.runs.run_directory import RunDirectory, check_path_free, remove_run
from gossiprec.runs.verify import verify_log
from tests.slow import slow_except_first

ROW = {"time": 1.0, "round": 1, "metric": "hr@5", "value": 0.5}
ROUNDS = 25


def create(path, **options):
    return RunDirectory.create(path, scenario={"name": "tiny"}, seed=7, sizes=SIZES, **options)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(lock, "TIMEOUT_S", 0.02)


def test_a_writer_that_comes_between_look_and_lock_loses_nothing(tmp_path, monkeypatch):
    """The second has looked when nobody wrote yet: what it sees then is no reason to empty the folder."""
    first = create(tmp_path / "r")
    first.metrics.append([ROW])
    monkeypatch.setattr(run_directory, "is_locked", lambda log: False)
    with pytest.raises(LogError, match="is in use by a running process"):
        create(tmp_path / "r", overwrite=True)
    first.log.append("wake", WAKES)
    first.finish("complete")

    assert open_run(tmp_path / "r").metrics["value"].tolist() == [0.5]
    assert verify_log(tmp_path / "r").complete


def test_a_writer_that_looks_while_another_empties_the_folder_is_told_of_it(tmp_path, monkeypatch):
    """The first look finds no writer; by the second the other has begun and deleted the files of an earlier run."""
    first = create(tmp_path / "r")
    (tmp_path / "r" / "manifest.json").unlink()
    looks = iter([False])
    monkeypatch.setattr(run_directory, "is_locked", lambda log: next(looks, None) or lock.is_locked(log))
    with pytest.raises(LogError, match="is in use by a running process"):
        check_path_free(tmp_path / "r", overwrite=True)
    first.finish("failed")


def test_a_manifest_deleted_between_two_looks_at_it_is_no_traceback(tmp_path, monkeypatch):
    first = create(tmp_path / "r")
    looks = iter([False])
    monkeypatch.setattr(run_directory, "is_locked", lambda log: next(looks, None) or lock.is_locked(log))
    monkeypatch.setattr(run_directory, "_holds_a_run", lambda path: (path / "manifest.json").unlink() or True)
    with pytest.raises(LogError, match="is in use by a running process"):
        check_path_free(tmp_path / "r", overwrite=False)
    first.finish("failed")


@pytest.mark.parametrize("name", ["manifest.json", "scenario.yaml"])
def test_a_run_that_has_only_just_begun_is_not_called_something_else(tmp_path, name):
    first = create(tmp_path / "r")
    (tmp_path / "r" / name).unlink()
    with pytest.raises(LogError, match=f"is in use by a running process and has no {name} yet"):
        open_run(tmp_path / "r")
    first.finish("failed") if name == "manifest.json" else first.lock.close()


def test_a_run_that_came_and_went_between_look_and_lock_is_not_replaced_unasked(tmp_path, monkeypatch):
    real = run_directory.RunLock

    def late(log):
        monkeypatch.setattr(run_directory, "RunLock", real)
        create(log.parent).finish("complete")
        return real(log)

    monkeypatch.setattr(run_directory, "RunLock", late)
    with pytest.raises(LogError, match="already contains a run"):
        create(tmp_path / "r")
    assert open_run(tmp_path / "r").status == "complete"
    assert not lock.is_locked(tmp_path / "r" / "events.mplog")


def test_a_lock_on_a_log_that_has_been_replaced_is_not_taken_for_one_on_the_new(tmp_path):
    create(tmp_path / "r").finish("interrupted")
    log = tmp_path / "r" / "events.mplog"
    os.link(log, tmp_path / "old")
    again = create(tmp_path / "r", overwrite=True)

    lock.RunLock(tmp_path / "old").close()
    with pytest.raises(LogError, match="a running process"):
        lock.RunLock(log)
    again.finish("complete")
    lock.RunLock(log).close()


def test_a_new_run_that_could_not_begin_leaves_a_folder_that_can_be_used(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(manifest, "new_manifest", full)
        with pytest.raises(OSError, match="No space"):
            create(tmp_path / "r")
    check_path_free(tmp_path / "r", overwrite=False)
    create(tmp_path / "r").finish("complete")
    assert sorted(os.listdir(tmp_path / "r")) == sorted(
        ["attacks.csv", "events.mplog", "findings.csv", "manifest.json", "metrics.csv", "scenario.yaml"]
    )


def test_a_run_that_is_alive_is_not_removed(tmp_path):
    alive = create(tmp_path / "r")
    with pytest.raises(LogError, match="a running process"):
        remove_run(tmp_path / "r")
    alive.finish("failed")
    remove_run(tmp_path / "r")
    remove_run(tmp_path / "r")
    assert os.listdir(tmp_path) == []


def compete(folder, barrier, results, *, overwrite):
    lock.TIMEOUT_S = 0.02
    for number in range(ROUNDS):
        path = folder / str(number)
        barrier.wait()
        try:
            run = create(path, overwrite=overwrite)
        except LogError as error:
            fair = "in use by a running process" in str(error) or "already contains" in str(error)
            results.put((number, False if fair else str(error)))
            continue
        run.metrics.append([ROW])
        run.log.append("wake", WAKES)
        barrier_free = run.metrics.length_and_crc()
        run.finish("complete")
        results.put((number, barrier_free))


@pytest.mark.parametrize("overwrite", slow_except_first([True, False]))
@pytest.mark.full
def test_of_two_processes_in_one_folder_the_winner_keeps_all_rows(tmp_path, overwrite):
    if overwrite:
        for number in range(ROUNDS):
            create(tmp_path / str(number)).finish("interrupted")
    fork = multiprocessing.get_context("fork")
    barrier, results = fork.Barrier(2), fork.Queue()
    rivals = [
        fork.Process(target=compete, args=(tmp_path, barrier, results), kwargs={"overwrite": overwrite})
        for _ in range(2)
    ]
    for rival in rivals:
        rival.start()
    found = [results.get(timeout=60) for _ in range(2 * ROUNDS)]
    for rival in rivals:
        rival.join()

    assert [rival.exitcode for rival in rivals] == [0, 0]
    assert [message for _, message in found if isinstance(message, str)] == []
    assert {number for number, won in found if won} == set(range(ROUNDS))
    for number in range(ROUNDS):
        run = open_run(tmp_path / str(number))
        assert run.status == "complete"
        assert run.metrics["value"].tolist() == [0.5]
        assert len(run.events("wake")["time"]) == len(WAKES["time"])
