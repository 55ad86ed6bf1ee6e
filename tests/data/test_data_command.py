from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from small_data import dataset, pack

from gossiprec.base.errors import DataError, ResourceError, ScenarioError
from gossiprec.cli.data import data
from gossiprec.data import DATASETS, SPLITS, delimited_text

SIZES = ["--users", "30", "--items", "60", "--interactions", "700"]


def call(*arguments):
    ran = CliRunner().invoke(data, [str(a) for a in arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_list_names_every_dataset_and_split():
    told = call("list").split()
    assert {*DATASETS, *SPLITS} <= set(told)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_what_make_writes_the_file_dataset_reads(tmp_path, name):
    out = tmp_path / name
    assert call("make", out, *SIZES, "--seed", 5) == f"{out}: 700 interactions\n"
    drawn = dataset("synthetic", users=30, items=60, interactions=700).load(5)
    found = dataset("file", path=out).load(0)
    assert found.users.tolist() == drawn.users.tolist()
    assert found.ratings.tolist() == drawn.ratings.tolist()
    assert found.times.tolist() == drawn.times.tolist()
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_make_twice_writes_the_same_bytes(tmp_path):
    outs = [tmp_path / "a.gz", tmp_path / "b.gz"]
    for out in outs:
        call("make", out, *SIZES)
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert outs[0].read_bytes()[4:8] == bytes(4), "the gzip header holds the time of writing"


def test_make_replaces_a_file_only_when_told(tmp_path):
    out = pack(tmp_path / "a.tsv", "mine")
    with pytest.raises(DataError, match="already exists; pass --overwrite"):
        call("make", out, *SIZES)
    assert out.read_text() == "mine"
    call("make", out, *SIZES, "--overwrite")
    assert out.read_text() != "mine"


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    out = pack(tmp_path / "a.tsv", "mine")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(delimited_text, "_write", full)
    with pytest.raises(ResourceError, match="No space left"):
        call("make", out, *SIZES, "--overwrite")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.tsv", "mine")]


def test_make_into_a_missing_folder_is_a_resource_error(tmp_path):
    with pytest.raises(ResourceError, match="cannot be written"):
        call("make", tmp_path / "none" / "a.tsv", *SIZES)


@pytest.mark.parametrize("delimiter", ["", "1", "-", "\n"])
def test_a_delimiter_that_could_be_data_is_refused(tmp_path, delimiter):
    with pytest.raises(DataError, match="delimiter"):
        call("make", tmp_path / "a", *SIZES, "--delimiter", delimiter)


def test_stats_of_a_file_take_its_options(tmp_path):
    path = pack(tmp_path / "views.csv", "ann,x\nann,y\nbob,x\n")
    told = json.loads(
        call("stats", "file", "--path", path, "-o", "columns=[user,item]", "-o", "delimiter=,", "--json")
    )
    assert (told["users"], told["items"], told["interactions"], told["source"]) == (2, 2, 3, str(path))


def test_stats_of_a_split_are_told_in_lines():
    told = call(
        "stats",
        "synthetic",
        "-o",
        "users=30",
        "-o",
        "items=60",
        "-o",
        "interactions=700",
        "--split",
        "published",
    )
    assert dict(line.split(maxsplit=1) for line in told.splitlines())["interactions"] == "700"
    assert "test_interactions" in told


@pytest.mark.parametrize("pair", ["users", "=3"])
def test_an_option_that_is_no_pair_is_a_usage_error(pair):
    ran = CliRunner().invoke(data, ["stats", "synthetic", "-o", pair])
    assert ran.exit_code == 2
    assert pair in ran.output


def test_an_unknown_option_names_the_known_ones():
    with pytest.raises(ScenarioError, match=r"colour: unknown key \(known: activity, "):
        call("stats", "synthetic", "-o", "colour=red")


def output_of(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_the_command_and_the_package_brings_in_neither_numpy_nor_torch():
    code = "import sys, gossiprec.cli.data, gossiprec.data; "
    assert output_of(code + "print({'numpy', 'scipy', 'torch'} & set(sys.modules))") == "set()\n"


@pytest.mark.full
def test_the_data_layer_never_imports_torch():
    code = "import sys; from gossiprec.data import DATASETS; list(DATASETS); "
    assert output_of(code + "print('torch' in sys.modules)") == "False\n"


@pytest.mark.full
def test_a_run_imports_only_the_dataset_and_the_split_it_uses():
    code = "import sys; from gossiprec.data import load_split; "
    code += "load_split('synthetic', dict(users=9, items=20, interactions=60), 'random', {}, 1); "
    code += "print({f'gossiprec.data.{name}' for name in ('file', 'published')} & set(sys.modules))"
    assert output_of(code) == "set()\n"


@pytest.mark.parametrize(
    ("command", "pair", "words"),
    [
        (
            ("stats", "synthetic"),
            "users=three",
            "dataset synthetic: users: found 'three', must be a whole number",
        ),
        (("stats", "synthetic"), "user=3", "dataset synthetic: user: unknown key; did you mean 'users'?"),
        (("stats", "synthetic"), "users=0", "users: found '0', must be greater than or equal to 1"),
        (("stats", "file", "--path", "x.csv"), "form=rows", "form: found 'rows', must be 'pairs' or 'lists'"),
        (("check", "x.csv"), "columns=[user", "dataset file: columns: found '[user'"),
        (("make", "out.csv"), "mixing=-1", "mixing: found '-1', must be greater than 0"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_our_own_words(command, pair, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("user,item\n1,2\n")
    with pytest.raises(ScenarioError) as refused:
        call(*command, "-o", pair)
    assert words in str(refused.value)
    for leaked in ("Input should", "not permitted", "unable to parse", "Extra inputs"):
        assert leaked not in str(refused.value)
