"""Text from files and arguments can hold control characters; no command sends them to the terminal."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import yaml
from calls import invoke

from gossiprec.base.text import one_line, printable, short_name, shorten_words
from gossiprec.cli.progress import RunProgressBar, StudyProgressBar
from gossiprec.cli.terminal import make_console
from gossiprec.runs import RunDirectory
from tests.figures.small_runs import write_run

TITLE = "\x1b]0;pwned\x07\x1b[31m\u202e\x9b31m\x7f\udcff"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ATTACK = {
    "observer": "single", "relevance": "ndcg", "momentum": 0.9, "community_size": 4, "max_aac": 0.25, "at_round": 1,
    "last_aac": 0.25, "best10_min": 0.5, "best10_mean": 0.5, "upper_bound": None, "random_bound": 0.1, "tied_share": 0,
}  # fmt: skip
SUMMARY = {
    "scenario": "s", "status": "complete", "dataset": "synthetic", "executor": "reference", "seed": 1, "nodes": 4,
    "items": 9, "threads": 1, "node_updates": 4, "node_updates_per_second": 2.0, "wall_seconds": 1.0, "seconds": {},
    "peak_rss_mib": 1.0, "utility": {"hr@20": 0.7}, "attacks": [ATTACK], "notes": ["a note"],
    "findings": [{"attack": "a", "measure": "m", "labels": {"who": "x"}, "value": 0.5, "round": 1}],
}  # fmt: skip
KEYS = {*SUMMARY, *ATTACK, *SUMMARY["findings"][0]}
COMMANDS = [
    *("runs {all}", "runs {all} --json", "runs {all} --column protocol.wakes", "runs {all} --sort {evil}"),
    *(
        "diff {run} {other}",
        "diff {run} {other} --json",
        "compare {run} {other}",
        "compare {run} {other} --json",
    ),
    *("log stats {run}", "log stats {run} --json", "log verify {run}", "log cat {run}", "resume {run}"),
    *(
        "table {run}",
        "study {run}",
        "scenario check {run}/scenario.yaml",
        "scenario show {run}/scenario.yaml",
    ),
    *(
        "topology inspect {run}",
        "data check {run}/users.csv",
        "data check {run}",
        "init {evil}",
        "list {evil}",
    ),
    *("simulate {run}/scenario.yaml --set {evil}=1", "{evil}", "report {run}{evil}", "replay {run} --quiet"),
    *("log export {run} --kind {evil} --out x.csv", "unlearn {run} --without {evil}", "epsilon {run}"),
]
DRAWING = ["report {run}", "report {run} --out {all}/page.html", "plot curves {run}", "plot position {run}"]


def spoilt(value, extra=TITLE):
    """Return plain data with control characters in every text but the status, which a run must have."""
    if isinstance(value, dict):
        return {key if key in KEYS else key + extra: spoilt(item, extra) for key, item in value.items()} | (
            {"status": value["status"]} if value.get("status") in ("complete", "running") else {}
        )
    if isinstance(value, list):
        return [spoilt(item, extra) for item in value]
    return value + extra if isinstance(value, str) else value


def with_labels(manifest, extra):
    return {key: spoilt(value, extra) if key != "status" else value for key, value in manifest.items()}


@pytest.fixture(params=["summary", "manifest", "status", "scenario", "tables", "folder"])
def folder(request, tmp_path):
    """Return a folder with two runs, one of which another person has spoilt in one way."""
    run = write_run(tmp_path / "run", status="interrupted").path
    (run / "users.csv").write_text("node,name\n0,ann\n")
    (run / "summary.json").write_text(json.dumps(SUMMARY))
    shutil.copytree(run, tmp_path / "other")
    escaped = TITLE.rstrip("\udcff")
    if request.param == "summary":
        (run / "summary.json").write_text(json.dumps(spoilt(SUMMARY, escaped)))
    if request.param in ("manifest", "status"):
        manifest = json.loads((run / "manifest.json").read_text())
        manifest = (
            with_labels(manifest, escaped) if request.param == "manifest" else {**manifest, "status": escaped}
        )
        (run / "manifest.json").write_text(json.dumps(manifest))
    if request.param == "scenario":
        (run / "scenario.yaml").write_text(
            yaml.safe_dump(spoilt({"name": "run", "observers": [{"name": "x"}]}, escaped))
        )
    if request.param == "tables":
        for name in ("attacks", "metrics", "positions", "findings", "users"):
            file = run / f"{name}.csv"
            if file.exists():
                head, *rows = file.read_text().splitlines()
                dirty = escaped.replace("\x07", "")
                file.write_text(
                    "\n".join([head, *(re.sub(r"([a-z@\[\]/]+)", rf"\g<1>{dirty}", row) for row in rows), ""])
                )
    if request.param == "folder":
        run.rename(tmp_path / f"run{TITLE}\n")
        run = tmp_path / f"run{TITLE}\n"
    return run


def demand_harmless(command, run, capsys):
    names = {
        "{run}": str(run),
        "{other}": str(run.with_name("other")),
        "{all}": str(run.parent),
        "{evil}": "x" + TITLE,
    }
    words = command.split(" ")
    for name, value in names.items():
        words = [word.replace(name, value) for word in words]
    code, out, err = invoke(capsys, *words)
    assert code in (0, 1, 2)
    assert (out + err).strip()
    assert not HARMFUL.search(out + err), ascii((command, out, err))


def test_no_command_prints_control_characters(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        demand_harmless(command, folder, capsys)


@pytest.mark.slow
@pytest.mark.cases(3)
def test_no_command_that_draws_prints_control_characters(folder, capsys):
    for command in DRAWING:
        demand_harmless(command, folder, capsys)


@pytest.mark.slow
def test_the_table_at_the_end_of_a_run_holds_no_control_characters(capsys, tmp_path):
    from gossiprec.cli.simulate import _print_results

    run = write_run(tmp_path / "run", status="interrupted")
    vars(run)["summary"] = spoilt(SUMMARY) | {"utility": {f"hr@5{TITLE}": 0.5}}
    for as_json in (False, True):
        _print_results(run, as_json=as_json)
        out = capsys.readouterr().out
        assert "pwned" in out
        assert not HARMFUL.search(out)


def test_progress_on_a_terminal_shows_no_control_characters(capsys):
    console = make_console()
    bar = RunProgressBar(console)
    bar.phase(f"reading {TITLE}")
    bar.note(f"[bold]found[/bold] {TITLE}")
    study = StudyProgressBar(str)
    study.running = {f"hash{TITLE}": TITLE}
    study.last = TITLE
    for each in (bar, study):
        console.print(each.renderable())
    out = capsys.readouterr().out
    assert "[bold]found[/bold]" in out
    assert out.count("pwned") >= 4
    assert not HARMFUL.search(out)


def test_long_names_are_cut_and_paths_are_not(tmp_path, capsys):
    name = "n" * 300
    summary = {**SUMMARY, "scenario": name, "attacks": [{**ATTACK, "observer": name}], "utility": {name: 0.5}}
    directory = RunDirectory.create(tmp_path / "run", scenario={"name": name}, seed=1)
    directory.write_summary(summary)
    directory.finish("complete")
    for command in ("runs {all}", "runs {all} --sort " + name, "diff {run} {run}", "report {run}/" + name):
        words = command.replace("{all}", str(tmp_path)).replace("{run}", str(tmp_path / "run")).split()
        _, out, err = invoke(capsys, *words)
        if "/" + name not in command:
            assert "n" * 81 not in out + err
    path = "/".join(["folder"] * 30)
    assert shorten_words(f"files {path}") == f"files {path}"
    assert shorten_words(f"found {name}; expected x") == f"found {'n' * 79}…; expected x"
    assert len(short_name(name)) == 80
    assert short_name("n" * 80) == "n" * 80


def test_harmless_text_stays():
    text = "Zürich, 東京, 👩‍👩‍👧, naïve\tcafé\nline 2: ± … – نام"
    assert printable(text) == shorten_words(text) == text
    assert one_line("a\nb") == "a\\u000ab"
    assert printable("\x1b[2J\u202egpj.exe\U000e0041") == "\\u001b[2J\\u202egpj.exe\\U000e0041"
