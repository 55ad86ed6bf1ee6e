"""A process can be killed between any two steps; what it leaves is continued, replaced or cleaned up."""

from __future__ import annotations

import pytest
from small_logs import SIZES

from gossiprec.base.errors import LogError
from gossiprec.runs import run_files
from gossiprec.runs.manifest import read_manifest
from gossiprec.runs.run import open_run
from gossiprec.runs.run_directory import RunDirectory, check_path_free, finish_cleaning
from tests.processes import killed_at

SCENARIO = {"name": "tiny", "seed": 7}
CHANGES = [{"at": 3.0, "set": {"training.learning_rate": 0.1}}]


def create(path, **options):
    return RunDirectory.create(path, scenario=SCENARIO, seed=7, sizes=SIZES, **options)


def failed_run(path):
    run = create(path, changes=CHANGES)
    run.write_summary({"scenario": "tiny"})
    run.finish("failed")


def test_a_run_that_starts_over_has_its_scenario_and_its_changes_after_every_step(tmp_path, monkeypatch):
    for step in range(1, 100):
        path = tmp_path / f"run-{step}"
        failed_run(path)
        if killed_at(monkeypatch, step, create, path, changes=CHANGES, overwrite=True):
            break
        run = open_run(path)
        assert run.scenario == SCENARIO
        assert run.manifest["changes"] == CHANGES
        create(path, changes=run.manifest["changes"], overwrite=True).finish("complete")
        assert not [*path.glob(".*.writing")]
        assert open_run(path).scenario == SCENARIO
    assert step > 8


def test_a_run_that_is_killed_at_its_birth_is_started_again_as_its_message_says(tmp_path, monkeypatch):
    for step in range(1, 100):
        path = tmp_path / f"run-{step}"
        if killed_at(monkeypatch, step, create, path):
            break
        try:
            open_run(path)
        except LogError as error:
            message = str(error)
        else:
            message = ""
        if (path / "manifest.json").exists():
            with pytest.raises(LogError, match="already contains a run"):
                check_path_free(path, overwrite=False)
            assert message == "" or "the run ended before it was written" in message
            assert message == "" or f"simulate SCENARIO --out {path} --overwrite" in message
            create(path, overwrite=True).finish("complete")
        else:
            create(path).finish("complete")
        assert not [*path.glob(".*.writing")]
    assert step > 5


def test_a_folder_with_a_manifest_of_another_program_is_called_no_run(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    with pytest.raises(LogError, match=r"is not a run directory: it has no scenario\.yaml"):
        open_run(tmp_path)


@pytest.mark.parametrize("name", [*run_files.FILES, "epsilon.npz", "versions-00002.npz"])
def test_half_written_files_of_a_complete_run_are_deleted(name, tmp_path):
    path = tmp_path / "run"
    create(path).finish("complete")
    checkpoint = path / "checkpoints" / "00000003.ckpt"
    checkpoint.parent.mkdir()
    checkpoint.write_bytes(b"not deleted in time")
    (path / f".{name}.e1c518258e94f0ee.writing").write_text("half")
    own = path / "notes.txt"
    own.write_text("of the user")
    before = read_manifest(path)

    finish_cleaning(path)

    assert not [*path.glob(".*")]
    assert not checkpoint.parent.exists()
    assert own.exists()
    assert read_manifest(path) == before


def test_half_written_files_of_a_run_in_progress_stay(tmp_path):
    run = create(tmp_path)
    left = tmp_path / ".summary.json.e1c518258e94f0ee.writing"
    left.write_text("half")
    with pytest.raises(LogError, match="in use by a running process"):
        finish_cleaning(tmp_path)
    assert left.exists()
    run.finish("complete")
