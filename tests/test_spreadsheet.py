"""Cells that a spreadsheet would run as formulas: plain text if that is requested, and only then."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from gossiprec.cli.options import SAFE_CSV
from gossiprec.cli.plot import plot
from gossiprec.cli.simulate import simulate
from gossiprec.cli.study import study
from gossiprec.figures.figure_files import csv_bytes
from gossiprec.runs.run_tables import ITEMS, plain_cells, read_run_table, safe_cell, write_run_table
from gossiprec.study.study_table import write_study_table as write_study_table

FORMULAS = ["=1+2", "+cmd", "-x", "@SUM(A1)", "\t=1", "\r=1", "\n=1"]
PLAIN = ["-0.5", "+3", "-1e-05", "a=b", "", -0.5, 7, None, "-inf"]


@pytest.mark.parametrize("cell", FORMULAS)
def test_a_formula_becomes_text_on_request(cell):
    assert safe_cell(cell) == cell
    with plain_cells():
        assert safe_cell(cell) == f"'{cell}"
    assert safe_cell(cell) == cell


@pytest.mark.parametrize("cell", PLAIN)
def test_numbers_and_other_text_stay(cell):
    with plain_cells():
        assert safe_cell(cell) == cell


def test_names_from_data_are_made_plain_in_the_files_of_a_run(tmp_path):
    names = ["=1+2", "-0.5", "plain"]
    write_run_table(tmp_path, ITEMS, {"item": range(3), "name": names}, quote_text=True)
    assert read_run_table(tmp_path, ITEMS)["name"].tolist() == names
    with plain_cells():
        write_run_table(tmp_path, ITEMS, {"item": range(3), "name": names}, quote_text=True)
    assert read_run_table(tmp_path, ITEMS)["name"].tolist() == ["'=1+2", "-0.5", "plain"]


def test_tables_of_figures_and_studies_are_made_plain(tmp_path):
    row = {"seed": 1, "run": "ab", "measure": "hr@5", "value": -0.5, "axis": "=1+2"}
    with plain_cells():
        assert csv_bytes(["=a", "b"], [["=1", -0.5]]) == b"'=a,b\n'=1,-0.5\n"
        write_study_table(tmp_path, [row], {"axis": "string"})
    table = (tmp_path / "table.csv").read_text()
    assert "'=1+2" in table
    assert "'-0.5" not in table


def test_the_option_lasts_as_long_as_its_command():
    @click.command()
    @SAFE_CSV
    def command():
        click.echo(safe_cell("=1"))

    assert CliRunner().invoke(command, ["--safe-csv"]).output == "'=1\n"
    assert CliRunner().invoke(command, []).output == "=1\n"
    assert safe_cell("=1") == "=1"


@pytest.mark.parametrize("command", [simulate, study, plot.commands["curves"], plot.commands["study"]])
def test_commands_that_write_names_have_the_option(command):
    assert "--safe-csv" in {name for parameter in command.params for name in parameter.opts}
