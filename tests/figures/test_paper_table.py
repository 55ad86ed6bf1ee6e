"""Tables of studies for papers: numbers, marks and notes, and four formats."""

import csv
import io
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import ttest_rel

from gossiprec.cli.main import exit_code
from gossiprec.study.api import open_study
from gossiprec.study.study_table import write_study_table
from tests.figures.drawn_studies import marked, with_levels, write_study

KINDS = {"fanout": "int64", "graph": "string"}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return a study with the last accuracies of attacks; the differences of fanout 1 and 2 vary by seed."""
    folder = write_study(tmp_path_factory.mktemp("study") / "s")
    last = {1: 0.01, 2: 0.04, 5: 0.02}
    return with_levels(
        folder, last_aac=lambda row: 0.5 * row["value"] + last[row["fanout"]] * (row["seed"] == 2)
    )


def lines(text):
    """Return the cells of a csv table."""
    return [*csv.DictReader(io.StringIO(text))]


def test_cells_have_the_mean_the_interval_and_the_test_of_their_seeds(study):
    found = lines(open_study(study).format_table("csv", measures=["last_aac[single]"]))
    values = {f: np.array([0.5 * (0.1 * f + 0.01 * s) for s in (1, 2, 3)]) for f in (1, 2, 5)}
    for fanout, extra in ((1, 0.01), (2, 0.04), (5, 0.02)):
        values[fanout][1] += extra
    ring = [row for row in found if row["graph"] == "ring"]
    assert [float(row["mean"]) for row in ring] == pytest.approx([100 * v.mean() for v in values.values()])
    half = 4.302653 * values[1].std(ddof=1) / 3**0.5
    assert float(ring[0]["high"]) - float(ring[0]["mean"]) == pytest.approx(100 * half, rel=1e-6)
    raw = [ttest_rel(values[f], values[2]).pvalue for f in (1, 5)]
    expected = [min(1, 4 * p) for p in raw]  # four tests, two of which have nearly the same p
    assert float(ring[2]["p"]) == pytest.approx(expected[1], rel=0.3)
    assert ring[1]["p"] == ""
    assert [row["best"] for row in found] == ["1", "0", "0", "0", "0", "0"]


def test_lower_values_are_best_where_the_measure_says_so_and_equal_ones_share_it(study, tmp_path):
    """The first two are 0.2, computed from the same seeds in another order."""
    values = {1: (0.1, 0.2, 0.3), 2: (0.3, 0.2, 0.1), 5: (0.2, 0.3, 0.4)}
    folder = shutil.copytree(study, tmp_path / "s")
    for name in ("miscalibration@5", "miscalibration@5[validated]", "recall@5"):
        with_levels(folder, "hr@20", **{name: lambda row: values[row["fanout"]][row["seed"] - 1]})
        found = lines(open_study(folder).format_table("csv", measures=[name], where={"graph": "ring"}))
        best = ["0", "0", "1"] if name == "recall@5" else ["1", "1", "0"]
        assert [row["best"] for row in found] == best


@pytest.mark.parametrize("scale", [1.0, 1e-13])
def test_a_difference_by_rounding_has_no_star_and_a_small_one_has(study, tmp_path, scale):
    """Fanouts 1 and 2 differ by the last bit at each seed, 5 by about the same in each."""
    values = {1: 0.1 + 0.2, 2: 0.3, 5: 0.5}
    folder = shutil.copytree(study, tmp_path / "s")
    with_levels(folder, "hr@20", **{"recall@5": lambda row: scale * values[row["fanout"]]})
    found = lines(open_study(folder).format_table("csv", measures=["recall@5"], where={"graph": "ring"}))
    assert [row["p"] for row in found] == ["1.0", "", "0.0"]


def test_the_last_report_ranks_if_a_table_has_it(study):
    both = open_study(study).format_table()
    assert "Attacks are ranked by the last report." in both
    heads, _, first = both.splitlines()[:3]
    bold = [head for head, cell in zip(heads.split("|"), first.split("|"), strict=True) if "**" in cell]
    assert all("last attack accuracy" in head for head in bold)
    assert len(bold) == 2
    only = open_study(study).format_table(measures=["max_aac"])
    assert "ranked by their highest report, which flatters the attack" in only
    assert "**12.0 ± 2.5**" in only


def test_units_digits_intervals_and_places_are_chosen(study):
    found = open_study(study).format_table(
        rows=["measure", "graph"], columns=["fanout"], measures=["hr@20"], units={"": "fraction"}, digits={"": 3},
        interval="ends", where={"graph": "ring"}, to={"fanout": "5"},
    )  # fmt: skip
    assert found.splitlines()[0] == "| measure | graph | fanout 1 | fanout 2 | fanout 5 |"
    assert found.splitlines()[2].startswith(r"| HR@20 | ring | 0.180 [0.155, 0.205]")
    assert "**0.980 [0.955, 1.005]**" in found
    assert "compared with fanout 5" in found


def test_failed_and_missing_runs_are_marked_and_counted(study, tmp_path):
    folder = tmp_path / "s"
    shutil.copytree(study, folder)
    rows = pq.read_table(folder / "table.parquet").to_pylist()
    none = dict.fromkeys(("measure", "value", "observer", "relevance", "momentum", "community_size"))
    kept = [
        row
        for row in rows
        if (row["fanout"], row["seed"]) != (1, 3) and (row["fanout"], row["graph"]) != (5, "ring")
    ]
    lost = {
        (r["fanout"], r["graph"], r["seed"]): {**r, **none, "status": "failed"} for r in rows if r not in kept
    }
    write_study_table(folder, [*kept, *lost.values()], KINDS)
    marked(folder, simulations=18, finished=12, failed=[{"run": "r"}] * 5)
    text = open_study(folder).format_table(measures=["hr@20"])
    assert "| 5 | ring | – |" in text
    assert text.count("†") == 3
    assert "Of the 18 runs of the study 5 failed and 1 are not finished." in text
    assert "† 2 values are of fewer seeds" in text
    assert "no finished run, or no such measure (1 of 6 cells)" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "fanuot"], "--rows: found 'fanuot'; did you mean 'fanout'?"),
        (["--columns", "x"], "has fanout, graph, measure"),
        (["--rows", "fanout"], "the axis graph of"),
        (["--rows", "fanout", "--columns", "fanout"], "found fanout twice"),
        (["--measure", "hr@2"], "has no measure 'hr@2'"),
        (["--where", "graph=torus"], "the axis graph has no value 'torus'; it has ring, random"),
        (["--to", "graph"], "--to: found 'graph'; expected NAME=VALUE"),
        (["--unit", "percents"], "did you mean 'percent'?"),
        (["--digits", "hr@21=2"], "--digits: found 'hr@21'; did you mean 'hr@20'?"),
        (["--digits", "-1"], "expected a number of decimal places from 0 to 12"),
        (["--interval", "sd"], "interval: found 'sd'; expected half, ends, none"),
        (["--format", "word"], "format: found 'word'; expected markdown, latex, csv, html"),
    ],
)
def test_bad_options_have_one_message(study, arguments, message, capsys):
    assert exit_code(["table", str(study), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_html_has_as_many_cells_in_each_line(study):
    class Reader(HTMLParser):
        found: list

        def handle_starttag(self, tag, attributes):
            if tag == "tr":
                self.found.append(0)
            elif tag in ("td", "th"):
                self.found[-1] += int(dict(attributes).get("colspan", 1))

    reader = Reader()
    reader.found = []
    text = open_study(study).format_table("html", rows=["fanout"], columns=["graph", "measure"])
    reader.feed(text)
    assert set(reader.found) == {1 + 2 * 5}
    assert "p &lt; 0.05" in text


def test_latex_has_balanced_braces_and_equal_lines(study, tmp_path, capsys):
    out = tmp_path / "t.tex"
    options = ["--rows", "fanout", "--columns", "graph,measure", "--format", "latex", "--out", str(out)]
    assert exit_code(["table", str(study), *options]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    text = out.read_text()
    assert text == open_study(study).format_table("latex", rows=["fanout"], columns=["graph", "measure"])
    plain = re.sub(r"\\[{}&%]", "", text)
    assert plain.count("{") == plain.count("}")
    body = plain[plain.index(r"\midrule") : plain.index(r"\bottomrule")].splitlines()[1:]
    assert [line.count("&") for line in body] == [10] * 3
    assert text.isascii()
    if shutil.which("pdflatex"):
        (tmp_path / "m.tex").write_text(
            "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\\input{t.tex}\\end{document}"
        )
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "m.tex"],
            cwd=tmp_path, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-800:]
