"""The picture that a study file asks for, several measures in one picture, and what things are called."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from click.testing import CliRunner

from gossiprec.base.errors import LogError
from gossiprec.cli.plot import plot
from gossiprec.figures.study.quantity import RUN_WORDS, measure_label, observer_label, rule_label
from gossiprec.figures.style import wrap_title
from gossiprec.measures.selectors import OF_ATTACKS
from gossiprec.study.api import StudyResult
from tests.figures.drawn_studies import figure_of, legend, marked, titles, with_levels, write_study

PICTURE = {"kind": "paired", "y": ["max_aac[single]"], "to": {"fanout": "1"}, "where": {"graph": "ring"}}


def drawn(folder, *options):
    result = CliRunner().invoke(plot, ["study", str(folder), *options])
    assert result.exit_code == 0, result.exception
    return result.output.split()


def rows_of(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_with_nothing_asked_for_the_picture_of_the_study_file_is_drawn(tmp_path):
    marked(write_study(tmp_path), picture=PICTURE)
    table = drawn(tmp_path)[0]
    assert table == str(tmp_path / "paired.csv")
    rows = rows_of(table)
    assert {(row["observer"], row["graph"], row["fanout"]) for row in rows} == {
        ("single", "ring", "2"),
        ("single", "ring", "5"),
    }
    assert [float(row["difference"]) for row in rows] == pytest.approx([0.1, 0.4])


def test_any_option_asks_for_another_picture(tmp_path):
    marked(write_study(tmp_path), picture=PICTURE)
    assert drawn(tmp_path, "--x", "fanout")[0] == str(tmp_path / "lines.csv")
    assert {row["graph"] for row in rows_of(tmp_path / "lines.csv")} == {"ring", "random"}


def test_in_python_it_is_the_same_picture(tmp_path):
    marked(write_study(tmp_path), picture=PICTURE)
    study = StudyResult(tmp_path)
    assert study.plot()[0] == tmp_path / "paired.csv"
    assert study.plot("paired", y="hr@20", to={"fanout": 5})[0].exists()
    assert {row["fanout"] for row in rows_of(tmp_path / "paired.csv")} == {"1", "2"}


def test_a_study_without_a_picture_has_lines(tmp_path):
    assert drawn(write_study(tmp_path))[0] == str(tmp_path / "lines.csv")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--to", "fanout=1"), "add --kind paired"),
        (("--kind", "paired", "--to", "fanout=9"), "has no value '9'; it has 1, 2, 5"),
        (("--kind", "paired", "--to", "fanuot=1"), "did you mean 'fanout'"),
        (("--kind", "heat", "--by", "measure"), "has no axis 'measure'"),
    ],
)
def test_what_cannot_be_drawn_is_said(tmp_path, options, words):
    result = CliRunner().invoke(plot, ["study", str(write_study(tmp_path)), *options])
    assert isinstance(result.exception, LogError)
    assert words in str(result.exception)


def test_measures_can_be_the_lines_of_a_panel(tmp_path):
    write_study(tmp_path, graphs=("ring",))
    with_levels(tmp_path, exposure_defended=0.1, exposure_undefended=0.3)
    figure = figure_of(tmp_path, by="measure", y=["exposure_defended", "exposure_undefended"])
    assert titles(figure) == ["single nodes", "coalition of 10 %"]
    assert legend(figure) == ["exposure of nodes with a defence", "exposure of nodes without a defence"]
    for axes in figure.axes:
        levels = {tuple(np.asarray(line.get_ydata(), float).round(6)) for line in axes.lines}
        assert levels == {(10.0, 10.0, 10.0), (30.0, 30.0, 30.0)}


def test_axes_are_called_what_the_study_file_says(tmp_path):
    marked(write_study(tmp_path), words={"fanout": "peers sent to at each wake"})
    assert figure_of(tmp_path, y="hr@20").axes[0].get_xlabel() == "peers sent to at each wake"
    assert figure_of(tmp_path, "heat", y="hr@20").axes[0].get_xlabel() == "peers sent to at each wake"


def test_titles_leave_out_what_all_attacks_share(tmp_path):
    write_study(tmp_path)
    assert titles(figure_of(tmp_path, y="max_aac")) == ["single nodes", "coalition of 10 %"]
    assert [title.partition(" mean")[0] for title in titles(figure_of(tmp_path, "heat", y="max_aac"))] == [
        "highest attack accuracy, single nodes (%)",
        "highest attack accuracy, coalition of 10 % (%)",
    ]


@pytest.mark.parametrize(
    "name", [*RUN_WORDS, *OF_ATTACKS, "recall@20[popularity]", "recall@20[sex=f]", "val_full_ndcg@10"]
)
def test_every_measure_of_ours_is_called_in_words(name):
    assert not {"_", "["} & set(measure_label(name))
    assert "." not in measure_label(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("single", "single nodes"),
        ("single-3-nodes", "single nodes, 3 of them"),
        ("single-10%", "single nodes, 10 % of them"),
        ("coalition-2.5%-degree", "coalition of 2.5 %, degree"),
        ("coalition-10%", "coalition of 10 %"),
        ("coordinator", "coordinator"),
        ("heard-by-peers", "heard-by-peers"),
    ],
)
def test_observers_are_called_in_words(name, words):
    assert observer_label(name) == words


def test_rules_of_attacks_are_called_in_words():
    assert [rule_label(rule) for rule in ("ndcg", "aia", "mia-0.4")] == [
        "ndcg relevance",
        "AIA by gradients",
        "entropy MIA, threshold 0.4",
    ]


def test_a_title_is_broken_between_words():
    title = "coalition of 10 %, upper bound partly off the axis, at 40 times"
    for width in (1.0, 1.8, 2.6, 4.0):
        lines = wrap_title(title, width)
        assert " ".join(lines) == title
    assert wrap_title("single nodes, at 40 times", 1.6)[0] == "single nodes,"
