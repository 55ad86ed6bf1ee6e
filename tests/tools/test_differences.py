"""The comparison of result folders finds one changed value in a file of each kind."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gossiprec import simulate
from gossiprec.runs.manifest import read_manifest, write_manifest
from gossiprec.runs.reader import read_log
from gossiprec.runs.writer import EventWriter

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TEXTS = ("metrics.csv", "attacks.csv", "findings.csv", "positions.csv", "users.csv", "items.csv")
ARRAYS = ("adversaries.npz", "hits.npz", "versions-00002.npz")
TABLES = ("metrics_by_user.parquet", "lists.parquet")


@pytest.fixture(scope="module")
def modules():
    names = ("tiny_scenarios", "differences", "same_bytes")
    sys.path.insert(0, str(BENCHMARKS))
    yield [importlib.import_module(name) for name in names]
    sys.path.remove(str(BENCHMARKS))
    for file in BENCHMARKS.glob("*.py"):
        sys.modules.pop(file.stem, None)


@pytest.fixture(scope="module")
def run(modules, tmp_path_factory):
    """Return the directory of a run that writes a file of each kind."""
    tiny = modules[0]
    pytest.importorskip("tensorboard")
    folder = tmp_path_factory.mktemp("made")
    tiny.write_inputs(folder)
    scenario = tiny.gossip(
        protocol={"wakes": 1},
        dataset={**tiny.FILM_DATA, "path": f"{folder}/ml-1m"},
        evaluate={"every": 1, "metrics": ["hr@5"], "keep_lists": 5, "keep": {"versions": "last"}},
        executor={"name": "reference"},
        observers=[{**tiny.CDA, **tiny.SINGLE}, {"name": "loss-mia", **tiny.SINGLE, "pairs": 5}],
    )
    return simulate(scenario, out=folder / "run", track=["tensorboard"]).path


@pytest.fixture
def copied(run, tmp_path):
    return Path(shutil.copytree(run, tmp_path / "copied"))


@pytest.fixture
def found(modules, run, copied):
    """Return a function that compares the run with its changed copy."""
    return lambda: modules[1].compare(run, copied)


def test_a_copy_has_no_difference(found):
    assert found() == {}


def test_a_later_change_does_not_reach_into_a_part_that_scenarios_share(modules):
    part = {"name": "fedavg"}
    changes = {"a": part, "a.user_table": "averaged", "b": part}
    found = modules[2].changed({}, changes)
    assert found == {"a": {"name": "fedavg", "user_table": "averaged"}, "b": part}
    assert part == {"name": "fedavg"}


def test_the_run_has_each_kind_of_file(modules, run):
    compared = set(modules[1].compared_files(run))
    assert compared == {"events.mplog", "summary.json", "events.out.tfevents", *TEXTS, *ARRAYS, *TABLES}


@pytest.mark.parametrize("name", TEXTS)
def test_one_digit_of_a_text_is_found(name, copied, found):
    file = copied / name
    text = file.read_text()
    digit = next(place for place in range(len(text) - 1, 0, -1) if text[place].isdigit())
    file.write_text(text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :])
    assert list(found()) == [name]


def test_a_missing_line_end_is_found(copied, found):
    file = copied / "metrics.csv"
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    assert list(found()) == ["metrics.csv"]


@pytest.mark.parametrize("name", ARRAYS)
def test_one_number_of_an_array_is_found(name, copied, found):
    with np.load(copied / name) as file:
        arrays = dict(file)
    key = next(key for key, array in arrays.items() if array.size)
    if arrays[key].dtype.kind == "f":
        arrays[key].flat[0] = np.nextafter(arrays[key].flat[0], np.inf, dtype=arrays[key].dtype)
    else:
        arrays[key].flat[0] += 1
    np.savez(copied / name, **arrays)
    assert f"{key} entry 0: " in found()[name]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda arrays, key: arrays.update({key: arrays[key].astype(arrays[key].dtype.newbyteorder())}),
            "now >",
        ),
        (lambda arrays, key: arrays.update({key: arrays[key].reshape(-1)}), "now "),
        (lambda arrays, key: arrays.pop(key), "only before"),
        (lambda arrays, key: arrays.update(other=arrays[key]), "other: only now"),
    ],
)
def test_another_type_shape_or_name_of_an_array_is_found(change, said, copied, found):
    with np.load(copied / "hits.npz") as file:
        arrays = dict(file)
    change(arrays, next(iter(arrays)))
    np.savez(copied / "hits.npz", **arrays)
    assert said in found()["hits.npz"]


@pytest.mark.parametrize("name", TABLES)
def test_one_value_of_a_table_is_found(name, copied, found):
    table = pq.read_table(copied / name)
    column = table.column_names[-1]
    values = table[column].to_pylist()
    values[0] += 1
    changed = pa.array(values, table.schema.field(column).type)
    pq.write_table(table.set_column(table.num_columns - 1, column, changed), copied / name)
    assert found()[name].startswith(f"{column} row 0: ")


def test_another_type_of_a_column_is_found(copied, found):
    table = pq.read_table(copied / "lists.parquet")
    place = table.num_columns - 1
    wider = table.column(place).cast(pa.float64())
    pq.write_table(table.set_column(place, table.column_names[place], wider), copied / "lists.parquet")
    assert "double" in found()["lists.parquet"]


def write_log(path, change=None):
    """Write the rows of a log again, in one chunk per kind, with the time of the last message moved by `change`."""
    log = read_log(path)
    rows = {kind: dict(log.events(kind)) for kind in log.kinds}
    if change:
        rows["message"]["time"] = rows["message"]["time"].copy()
        rows["message"]["time"][-1] += change
    with EventWriter(path, schema=log.schema) as writer:
        for kind, columns in rows.items():
            writer.append(kind, columns)
    write_manifest(path.parent, {**read_manifest(path.parent), "log_digest": writer.digest})


def test_one_value_of_the_log_is_found_and_its_chunks_are_free(copied, found):
    write_log(copied / "events.mplog")
    assert found() == {}
    write_log(copied / "events.mplog", change=1e-9)
    assert found()["events.mplog"].startswith("message row ")


def test_the_digest_of_the_log_is_compared(copied, found):
    write_manifest(copied, {**read_manifest(copied), "log_digest": "0" * 64})
    assert found() == {"events.mplog": "digests differ, rows do not"}


def change_summary(copied, key, value):
    file = copied / "summary.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))


def test_one_value_of_the_summary_is_found(copied, found):
    change_summary(copied, "utility", {"hr@5": 0.5})
    assert found()["summary.json"].startswith("utility.hr@5: ")
    change_summary(copied, "more", [])
    assert "summary.json" in found()


def test_a_number_of_another_type_is_found(copied, found):
    change_summary(copied, "seed", 3.0)
    assert found() == {"summary.json": "seed: 3, now 3.0"}


def test_a_measured_value_of_the_summary_is_not_compared(modules, copied, found):
    for key in modules[1].MEASURED:
        change_summary(copied, key, {"python": 1e9})
    assert found() == {}


def write_curves(file, other, value):
    """Write the events of a file again, with another value of the last point."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    events = [Event.FromString(record) for record in RawEventFileLoader(str(file)).Load()]
    for event in events:
        event.wall_time += 1
    events[-1].summary.value[-1].simple_value = value
    with other.open("wb") as opened:
        writer = RecordWriter(opened)
        for event in events:
            writer.write(event.SerializeToString())
        writer.flush()
    file.unlink()


def test_one_value_of_a_curve_is_found_and_its_times_are_free(modules, copied, found):
    differences, name = modules[1], "events.out.tfevents"
    file = differences.compared_files(copied)[name]
    points = list(differences.points(file))
    other = file.with_name(f"{name}.1.other.1")
    write_curves(file, other, points[-1][2])
    assert found() == {}
    write_curves(other, file, points[-1][2] + 0.5)
    assert found()[name].startswith(f"row {len(points) - 1}: ")


def test_a_missing_file_and_an_additional_file_are_found(copied, found):
    (copied / "hits.npz").unlink()
    (copied / "observed").mkdir()
    (copied / "observed" / "notes.txt").write_text("more")
    assert found() == {"hits.npz": "only before", "observed/notes.txt": "only now"}


def test_the_form_of_scenario_manifest_and_checkpoints_is_free(copied, found):
    (copied / "scenario.yaml").write_text("{}")
    write_manifest(copied, {**read_manifest(copied), "code": "other"})
    (copied / "checkpoints").mkdir()
    (copied / "checkpoints" / "1.ckpt").write_text("other")
    assert found() == {}


def test_a_file_that_cannot_be_read_is_a_difference(copied, found):
    (copied / "summary.json").write_text("{")
    assert found()["summary.json"].startswith("cannot be compared: JSONDecodeError")
