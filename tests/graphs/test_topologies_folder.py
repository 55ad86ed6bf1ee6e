"""The folder that people touch: every frozen graph and recipe has a page, and what the pages say is so."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from gossiprec import simulate
from gossiprec.cli.main import gossiprec
from gossiprec.network import graphs
from gossiprec.scenario import load_scenario
from tests.slow import slow_except_first

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "topologies"
RECIPES = sorted((FOLDER / "recipes").glob("*.yaml"))
PAGES = sorted(path for path in FOLDER.rglob("*.md") if path.name != "README.md")


def commands(page):
    """Return the arguments of every command of a page's shell blocks."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)).replace("\\\n", " ")
    lines = (shlex.split(line, comments=True) for line in blocks.splitlines())
    return [line[1:] for line in lines if line and line[0] == "gossiprec"]


def invoke(arguments):
    return CliRunner().invoke(gossiprec, arguments)


def test_each_graph_and_each_recipe_has_a_page_that_the_readme_names():
    readme = (FOLDER / "README.md").read_text()
    pages = [path.relative_to(FOLDER).with_suffix("").as_posix() for path in PAGES]
    assert sorted(pages) == sorted([*graphs.frozen_names(), *(f"recipes/{path.stem}" for path in RECIPES)])
    assert all(f"({name}.md)" in readme for name in pages)


def test_the_graphs_of_the_folder_are_those_of_the_package():
    assert {path.stem for path in (FOLDER / "frozen").glob("*.edges")} == set(graphs.frozen_names())


@pytest.mark.parametrize("name", graphs.frozen_names())
def test_a_page_says_what_inspect_prints(name):
    (block,) = re.findall(r"\n\n```\n(.*?)```", (FOLDER / f"{name}.md").read_text(), re.DOTALL)
    assert invoke(["topology", "inspect", name]).output == block
    graph = graphs.frozen_graph(name)
    assert f"| {len(graph)} | {graph.number_of_edges()} |" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.cases(7)
def test_the_commands_of_a_page_are_there(page, monkeypatch, tmp_path):
    """Graphs are inspected, compared, drawn and made; scenarios are resolved; pictures are left to other tests."""
    (tmp_path / "topologies").symlink_to(FOLDER)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    found = commands(page)
    assert {"topology", "simulate"} <= {command[0] for command in found}
    for command in found:
        if command[0] == "topology":
            result = invoke(command)
            assert result.exit_code == 0, (command, result.output, result.exception)
        elif command[0] == "simulate":
            sets = [value for option, value in pairwise(command) if option == "--set"]
            load_scenario(command[1], sets)
        else:
            assert invoke([*command[:2], "--help"]).exit_code == 0


@pytest.mark.parametrize("path", slow_except_first(RECIPES), ids=lambda path: path.stem)
@pytest.mark.full
def test_a_recipe_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    run = simulate(path, overrides=["protocol.wakes=2", "executor.name=reference"], out=tmp_path / "run")
    assert run.manifest["status"] == "complete"
    assert run.scenario["name"] == path.stem.replace("_", "-")


@pytest.mark.slow
@pytest.mark.parametrize("name", graphs.frozen_names())
@pytest.mark.cases(1)
def test_a_frozen_graph_is_simulated_as_its_page_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    (command,) = (c for c in commands(FOLDER / f"{name}.md") if c[0] == "simulate")
    more = ["--set", "protocol.wakes=1", "--executor", "reference", "--quiet", "--out", str(tmp_path / "run")]
    result = invoke([*command[: command.index("--out")], *more])
    assert result.exit_code == 0, (result.output, result.exception)
