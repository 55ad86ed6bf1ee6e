"""The lines of a study for the files behind quoted numbers: looks, names, and merging into a file."""

import csv

import pytest

from gossiprec import study
from tests.study.small_studies import BASE
from tools.measured import main

STUDY = {
    "name": "small",
    "seeds": 2,
    "base": {
        **BASE,
        "protocol": {"name": "fedavg", "rounds": 3},
        "evaluate": {"every": 1, "metrics": ["recall@20", "val_recall@20"]},
        "observers": [],
    },
    "axes": {"experiment": {"values": {"slow-one": {"training.learning_rate": 0.001}, "fast-one": {}}}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("study") / "small"
    study(STUDY, out=out, progress=False)
    return out


def lines(capsys, *arguments):
    """Return the printed lines as rows."""
    assert main([str(argument) for argument in arguments]) == 0
    return list(csv.DictReader(capsys.readouterr().out.splitlines()))


def reports(folder, experiment, seed, metric):
    """Return a metric by round from the files of a run, without the tool."""
    with (folder / "table.csv").open() as file:
        run = next(
            row["run"]
            for row in csv.DictReader(file)
            if (row["experiment"], row["seed"]) == (experiment, str(seed))
        )
    with (folder / "runs" / run / "metrics.csv").open() as file:
        return {
            int(row["round"]): float(row["value"]) for row in csv.DictReader(file) if row["metric"] == metric
        }


def test_each_look_of_each_run_has_its_value(folder, capsys):
    found = lines(
        capsys,
        folder,
        "--measure",
        "recall@20=Recall@20",
        "--at",
        2,
        "--at",
        "end",
        "--at",
        "best:val_recall@20",
    )
    wanted = set()
    for experiment in ("slow-one", "fast-one"):
        for seed in (1, 2):
            curve = reports(folder, experiment, seed, "recall@20")
            chosen = reports(folder, experiment, seed, "val_recall@20")
            best = min(epoch for epoch in chosen if chosen[epoch] == max(chosen.values()))
            for look, value in (
                ("2", curve[2]),
                ("last epoch", curve[3]),
                ("best validation epoch", curve[best]),
            ):
                wanted.add((experiment, "Recall@20", look, str(seed), f"{value:.6f}"))
    assert {(one["row"], one["column"], one["look"], one["seed"], one["measured"]) for one in found} == wanted


def test_a_setting_chooses_experiments_and_rows_have_the_names_of_the_page(folder, capsys):
    found = lines(capsys, folder, "--measure", "recall@20", "--setting", "slow", "--row", "The slow one=one")
    assert {(one["setting"], one["row"], one["column"]) for one in found} == {
        ("slow", "The slow one", "recall@20")
    }


def test_named_rows_are_the_only_ones(folder, capsys):
    found = lines(capsys, folder, "--measure", "recall@20", "--row", "Slow=slow-one")
    assert [(one["row"], one["seed"]) for one in found] == [("Slow", "1"), ("Slow", "2")]


def test_a_path_of_the_summary_is_a_measure(folder, capsys):
    found = lines(capsys, folder, "--measure", "nodes=Users", "--setting", "slow")
    assert [(one["look"], float(one["measured"])) for one in found] == [("last epoch", 12.0)] * 2


def test_new_lines_replace_those_of_the_same_names_and_keep_others(folder, tmp_path, capsys):
    file = tmp_path / "values.csv"
    file.write_text(
        "setting,row,column,look,seed,measured\n"
        "other,row,column,last epoch,1,7\n"
        "slow,one,recall@20,last epoch,1,9\n"
    )
    assert main([str(folder), "--measure", "recall@20", "--setting", "slow", "--into", str(file)]) == 0
    first = reports(folder, "slow-one", 1, "recall@20")[3]
    second = reports(folder, "slow-one", 2, "recall@20")[3]
    assert file.read_text().splitlines()[1:] == [
        "other,row,column,last epoch,1,7",
        f"slow,one,recall@20,last epoch,1,{first:.6f}",
        f"slow,one,recall@20,last epoch,2,{second:.6f}",
    ]


def test_a_folder_without_a_study_and_a_setting_without_runs_are_named(folder, tmp_path, capsys):
    assert main([str(tmp_path), "--measure", "recall@20"]) == 2
    assert "expected the table of a study" in capsys.readouterr().err
    assert main([str(folder), "--measure", "recall@20", "--setting", "quick"]) == 2
    assert "found no finished run of quick; finished are fast-one, slow-one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--at", "banana"], "found 'banana', expected an epoch, end or best:METRIC"),
        (["--row", "Slow=slowest"], "--row: found slowest, expected some of fast-one, slow-one"),
        (["--measure", "recal@20"], "no run has a value of recal@20"),
        (["--at", "end", "--at", "7"], "no run has a value of 7"),
        (["--at", "end", "--at", "best:recal@20"], "no run has a value of best validation epoch"),
    ],
)
def test_names_without_a_value_are_refused(folder, capsys, arguments, words):
    with pytest.raises(SystemExit) as refused:
        raise SystemExit(main([str(folder), "--measure", "recall@20", *arguments]))
    assert refused.value.code == 2
    assert words in capsys.readouterr().err


def test_an_empty_file_a_folder_and_a_strange_table_are_refused(folder, tmp_path, capsys):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    for source, into in (
        (folder, tmp_path / "empty.csv"),
        (folder, tmp_path),
        (folder, tmp_path / "no" / "file.csv"),
        (tmp_path, tmp_path / "new.csv"),
    ):
        assert main([str(source), "--measure", "recall@20", "--into", str(into)]) == 2
        assert capsys.readouterr().err.startswith("error: ")
    assert (tmp_path / "empty.csv").read_text() == ""


def test_a_file_with_other_columns_stays_as_it_is(folder, tmp_path, capsys):
    file = tmp_path / "values.csv"
    file.write_text("row,column,seed,measured\n")
    assert main([str(folder), "--measure", "recall@20", "--into", str(file)]) == 2
    assert file.read_text() == "row,column,seed,measured\n"
