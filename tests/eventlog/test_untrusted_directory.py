"""A run directory from a source that nobody trusts: no link in it is followed, by whatever reads, writes or deletes."""

from __future__ import annotations

import os
import shutil

import pytest
from small_logs import SIZES, WAKES

from gossiprec.base.errors import GossipRecError, LogError
from gossiprec.runs import run_files
from gossiprec.runs.checkpoints import CheckpointFolder, read_stamp
from gossiprec.runs.lock import RunLock, exclusive_writer, is_locked
from gossiprec.runs.reader import read_log
from gossiprec.runs.run import open_run
from gossiprec.runs.run_directory import RunDirectory
from gossiprec.runs.run_files import NEW, open_regular, replace_file, sync_file
from gossiprec.runs.verify import verify_log
from gossiprec.study.folder import StudyFolder


def create(path, **options):
    return RunDirectory.create(path, scenario={"name": "tiny"}, seed=7, sizes=SIZES, **options)


@pytest.fixture
def run(tmp_path):
    written = create(tmp_path / "r")
    written.log.append("wake", WAKES)
    written.write_names(["ann"], ["one"])
    written.finish("interrupted")
    return tmp_path / "r"


@pytest.fixture
def outside(tmp_path):
    """Return a folder with a file and with what looks like checkpoints."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(b"precious")
    (folder / "00000001.ckpt").write_bytes(b"mine")
    (folder / ".00000001.ckpt.7.writing").write_bytes(b"mine")
    return folder


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


READERS = {
    "open": open_run,
    "verify": verify_log,
    "log": lambda run: read_log(run / "events.mplog"),
    "overwrite": lambda run: create(run, overwrite=True),
}


@pytest.mark.parametrize("name", [*run_files.FILES, run_files.CHECKPOINTS])
@pytest.mark.parametrize("use", ["open", "verify", "overwrite"])
def test_a_link_in_place_of_a_file_of_the_run_is_refused_and_not_followed(run, outside, name, use):
    before = files_in(outside)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside if name == run_files.CHECKPOINTS else outside / "secret")
    with pytest.raises(LogError, match=r"found a link.*(delete|place)"):
        READERS[use](run)
    assert files_in(outside) == before


def test_links_at_the_temporary_names_of_earlier_versions_are_not_followed(run, outside):
    before = files_in(outside)
    for name in run_files.FILES:
        (run / f".{name}.writing").symlink_to(outside / "secret")
    again = create(run, overwrite=True)
    again.write_summary({"nodes": 4})
    again.finish("complete")
    replace_file(run / "curves.csv", b"a,b\n")

    assert files_in(outside) == before
    assert (run / "summary.json").is_file()


def test_temporary_names_cannot_be_guessed(tmp_path, monkeypatch):
    seen = []
    real = os.open

    def noted(path, flags, *more, **options):
        if ".writing" in str(path):
            seen.append((str(path), bool(flags & os.O_EXCL and flags & os.O_NOFOLLOW)))
        return real(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", noted)
    for _ in range(2):
        replace_file(tmp_path / "a", b"1")
    assert len({name for name, _ in seen}) == 2
    assert all(safe for _, safe in seen)


def test_what_killed_writers_have_left_goes_with_the_next_run(run):
    (run / ".summary.json.0123abcd.writing").write_bytes(b"half")
    create(run, overwrite=True).finish("complete")
    assert not [name for name in os.listdir(run) if name.startswith(".")]


def test_linked_checkpoints_are_neither_read_nor_deleted(run, outside):
    before = files_in(outside)
    (run / "checkpoints").symlink_to(outside)
    folder = CheckpointFolder(run)
    for use in (folder.newest_first, lambda: folder.drop_after(0), folder.clear):
        with pytest.raises(LogError, match="found a link"):
            use()
    with pytest.raises(LogError, match="found a link"):
        folder.write(None, {}, keep=1, wanted=lambda: True)
    (run / "checkpoints").unlink()
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "00000002.ckpt").symlink_to(outside / "00000001.ckpt")
    with pytest.raises(LogError, match="found a link"):
        read_stamp(run / "checkpoints" / "00000002.ckpt")
    assert files_in(outside) == before


def open_new(path):
    os.close(open_regular(path, NEW))


@pytest.mark.parametrize(
    "use",
    [RunLock, open_new, sync_file, read_log, read_stamp],
    ids=lambda use: use.__name__,
)
def test_a_linked_file_is_opened_by_nobody(tmp_path, outside, use):
    before = files_in(outside)
    (tmp_path / "link").symlink_to(outside / "secret")
    with pytest.raises((GossipRecError, FileExistsError)):
        use(tmp_path / "link")
    assert not is_locked(tmp_path / "link")
    assert files_in(outside) == before


@pytest.mark.parametrize("use", [RunLock, sync_file, read_log, read_stamp], ids=lambda use: use.__name__)
def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path, use):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LogError, match="found no regular file"):
        use(tmp_path / "pipe")


def test_a_study_follows_no_link_either(tmp_path, outside):
    study = tmp_path / "study"
    study.mkdir()
    (study / "study.json").write_text('{"gossiprec": "1", "study": "small"}')
    (study / ".lock").symlink_to(outside / "made")
    with pytest.raises(LogError, match="found a link"), exclusive_writer(study, what="study", patience_s=0.1):
        pass
    (study / ".lock").unlink()
    (study / "runs").symlink_to(outside)
    with pytest.raises(LogError, match="found a link"), StudyFolder(study).locked("small"):
        pass
    assert sorted(os.listdir(outside)) == [".00000001.ckpt.7.writing", "00000001.ckpt", "secret"]


def test_a_run_reached_through_a_link_is_a_run(run, tmp_path):
    """The folder itself may lie elsewhere: only what is in it must be its own."""
    (tmp_path / "linked").symlink_to(run)
    assert open_run(tmp_path / "linked").manifest["seed"] == 7
    shutil.rmtree(run)
