"""``gossiprec report``."""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from gossiprec.base.errors import LogError
from gossiprec.cli import report as command
from tests.figures.small_runs import write_run
from tests.figures.test_study_figures import write_study
from tests.report.test_page import data_in
from tests.report.test_run_sections import bare_run


def invoke(*arguments):
    return CliRunner().invoke(command.report, [str(argument) for argument in arguments])


def titles(path):
    return [section["title"] for section in data_in(path.read_bytes())["sections"]]


def test_the_page_goes_into_the_first_folder_and_its_path_is_printed(tmp_path):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b")
    result = invoke(tmp_path / "a", tmp_path / "b")
    assert result.exit_code == 0, result.exception
    assert result.output.strip() == str(tmp_path / "a" / "report.html")
    assert data_in((tmp_path / "a" / "report.html").read_bytes())["title"] == "a, b"


def test_out_makes_its_folder(tmp_path):
    write_run(tmp_path / "a")
    assert invoke(tmp_path / "a", "--out", tmp_path / "new" / "page.html").exit_code == 0
    assert (tmp_path / "new" / "page.html").exists()


def test_runs_and_studies_share_a_page(tmp_path):
    write_run(tmp_path / "r")
    write_study(tmp_path / "s")
    assert invoke(tmp_path / "r", tmp_path / "s", "--out", tmp_path / "p.html").exit_code == 0
    found = titles(tmp_path / "p.html")
    assert found[:2] == ["The answer", "Study s"]
    assert "Runs" in found


def test_pages_of_the_runs_of_a_study_are_written_once_and_linked(tmp_path):
    folder = write_study(tmp_path / "s")
    write_run(folder / "runs" / "r")
    first, second = invoke(folder, "--runs"), invoke(folder, "--runs")
    assert "page 1 of 1" in first.stderr
    assert second.stderr == ""
    runs = data_in((folder / "report.html").read_bytes())["sections"][-1]["blocks"][0]
    assert runs["rows"][0][3] == ["r", "runs/r/report.html"]


def test_a_folder_of_something_else_raises_the_error_that_the_command_line_prints(tmp_path):
    assert isinstance(invoke(tmp_path).exception, LogError)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path):
    assert invoke(tmp_path / "nowhere").exit_code == 2


def test_a_run_that_has_ended_is_written_once_and_does_not_reload(tmp_path):
    write_run(tmp_path / "r")
    assert invoke(tmp_path / "r", "--watch").exit_code == 0
    assert data_in((tmp_path / "r" / "report.html").read_bytes())["reload_s"] is None


def test_watching_writes_again_until_the_run_has_ended(tmp_path, monkeypatch):
    directory = bare_run(tmp_path / "r")
    page = tmp_path / "r" / "report.html"
    told = []

    def sleep(seconds):
        told.append((seconds, data_in(page.read_bytes())["reload_s"]))
        if len(told) == 2:
            directory.finish("complete")

    monkeypatch.setattr(command, "time", SimpleNamespace(sleep=sleep))
    result = invoke(tmp_path / "r", "--watch", "3")
    assert result.exit_code == 0, result.exception
    assert told == [(3.0, 3.0), (3.0, 3.0)]
    assert data_in(page.read_bytes())["reload_s"] is None
    assert result.output.count("report.html") == 1


def test_equal_runs_give_equal_pages_but_for_when_they_were_written(tmp_path):
    pages = []
    write_run(tmp_path / "r")
    for _ in range(2):
        invoke(tmp_path / "r")
        pages.append(data_in((tmp_path / "r" / "report.html").read_bytes()))
    assert json.dumps(pages[0]["sections"]) == json.dumps(pages[1]["sections"])


@pytest.mark.slow
@pytest.mark.full
def test_a_report_of_runs_does_not_load_the_drawing_library(tmp_path):
    run = write_run(tmp_path / "r").path
    script = (
        "import sys\nfrom pathlib import Path\nfrom gossiprec.report.page import write_report\n"
        f"write_report([Path({str(run)!r})], Path({str(tmp_path / 'p.html')!r}))\n"
        "sys.exit('matplotlib' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("seconds", ["0", "0.5", "soon"])
def test_watching_too_often_is_a_usage_error(seconds, tmp_path):
    write_run(tmp_path / "r")
    result = invoke(tmp_path / "r", f"--watch={seconds}")
    assert result.exit_code == 2
    assert re.search("'--watch'", result.output)


@pytest.mark.parametrize("name", ["x.pdf", "x", "x.html.gz"])
def test_a_report_is_html_and_nothing_else(name, tmp_path):
    write_run(tmp_path / "a")
    result = invoke(tmp_path / "a", "--out", tmp_path / name)
    assert isinstance(result.exception, LogError)
    assert "a report is HTML; use x" in str(result.exception)
    assert not (tmp_path / name).exists()
