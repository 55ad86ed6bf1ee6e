"""``gossiprec plot``."""

import subprocess
import sys

import pytest
from click.testing import CliRunner
from small_runs import lines, write_run

from gossiprec.base.errors import LogError
from gossiprec.cli.plot import plot
from gossiprec.runs import Run


def invoke(*arguments):
    return CliRunner().invoke(plot, [str(argument) for argument in arguments])


@pytest.mark.parametrize("figure", ["cdf", "curves", "exposure", "position"])
@pytest.mark.cases(2)
def test_files_go_into_the_first_run_and_their_paths_are_printed(figure, tmp_path):
    write_run(tmp_path / "run")
    result = invoke(figure, tmp_path / "run")
    assert result.exit_code == 0
    assert result.output.split() == [
        str(tmp_path / "run" / f"{figure}.{kind}") for kind in ("csv", "png", "svg")
    ]


@pytest.mark.parametrize("figure", ["cdf", "curves", "position"])
@pytest.mark.cases(1)
def test_options_choose_among_the_attacks(figure, tmp_path):
    write_run(
        tmp_path / "run",
        observers=("single", "coalition-5%"),
        relevances=("ndcg", "mean_score"),
        momenta=(0, 0.99),
    )
    options = ("--observer", "single", "--relevance", "ndcg", "--momentum", "0.99")
    assert invoke(figure, tmp_path / "run", *options, "--out", tmp_path / "f").exit_code == 0
    drawn = {tuple(line.split(",")[1:4]) for line in lines(tmp_path / "f.csv")[1:]}
    assert drawn - {("", "", "")} == {("single", "ndcg", "0.99")}


@pytest.mark.slow
def test_measures_of_position_are_chosen_by_name(tmp_path):
    write_run(tmp_path / "run")
    options = ("--measure", "in_contacts", "--measure", "betweenness", "--out", tmp_path / "f")
    assert invoke("position", tmp_path / "run", *options).exit_code == 0
    assert {line.split(",")[5] for line in lines(tmp_path / "f.csv")[1:]} == {"in_contacts", "betweenness"}


def test_several_runs_share_one_figure(tmp_path):
    runs = [write_run(tmp_path / name).path for name in ("plain", "defended")]
    assert invoke("exposure", *runs, "--out", tmp_path / "both").exit_code == 0
    assert {line.split(",")[0] for line in lines(tmp_path / "both.csv")[1:]} == {"plain", "defended"}


def test_a_run_without_attacks_raises_the_error_that_the_command_line_prints(tmp_path):
    write_run(tmp_path / "run", observers=())
    assert isinstance(invoke("cdf", tmp_path / "run").exception, LogError)


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path):
    assert invoke("cdf", tmp_path / "nowhere").exit_code == 2


def test_listing_the_commands_does_not_load_the_drawing_library():
    script = "import sys, gossiprec.cli.plot; sys.exit('matplotlib' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_of_a_run_that_is_going_on_it_says_to_wait(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", observers=()).path
    monkeypatch.setattr(Run, "status", "running")
    error = str(invoke("cdf", run).exception)
    assert "no attack results yet" in error
    assert f"{run} (running); wait for the end of the run" in error
    monkeypatch.setattr(Run, "status", "killed")
    assert "wait" not in str(invoke("cdf", run).exception)
