"""Studies with known numbers, as tables in a folder, and what is drawn of them."""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from gossiprec.figures.study.draw import KINDS
from gossiprec.figures.study.panels import StudyFigureOptions
from gossiprec.figures.study.table_reader import read_study
from gossiprec.figures.style import house_style
from gossiprec.study.study_table import write_study_table

ATTACKS = ("single", "coalition-10%")
NONE = dict.fromkeys(("observer", "relevance", "momentum", "community_size"))


def write_study(folder, *, seeds=(1, 2, 3), baseline=None, graphs=("ring", "random"), fanouts=(1, 2, 5)):
    """Write a study in which attack accuracy is 0.1 f + 0.01 s (twice that for coalitions), utility 0.2 f + 0.01 s."""
    rows = []
    for fanout in fanouts:
        for graph in graphs:
            for seed in seeds:
                about = {
                    "fanout": fanout,
                    "graph": graph,
                    "seed": seed,
                    "run": "r",
                    "status": "complete",
                    "code": "c",
                }
                value = 0.01 * seed + (0.001 if graph == "random" else 0)
                rows.append({**about, **NONE, "measure": "hr@20", "value": 0.2 * fanout - value})
                for times, observer in enumerate(ATTACKS, 1):
                    attack = {"observer": observer, "relevance": "ndcg", "momentum": 0.9, "community_size": 5}
                    rows.append(
                        {**about, **attack, "measure": "max_aac", "value": times * (0.1 * fanout + value)}
                    )
    folder.mkdir(exist_ok=True)
    write_study_table(folder, rows, {"fanout": "int64", "graph": "string"})
    told = {
        "study": "s",
        "gossiprec": "0",
        "axes": ["fanout", "graph"],
        "baseline": baseline or {"fanout": 2},
    }
    (folder / "study.json").write_text(json.dumps(told))
    return folder


def with_levels(folder, beside="max_aac", **levels):
    """Add measures to a study that stand beside each accuracy: a number, or a function of the row of that accuracy."""
    rows = pq.read_table(folder / "table.parquet").to_pylist()
    more = [
        {**row, "measure": name, "value": level(row) if callable(level) else level}
        for row in rows
        if row["measure"] == beside
        for name, level in levels.items()
    ]
    write_study_table(folder, rows + more, {"fanout": "int64", "graph": "string"})
    return folder


def marked(folder, **told):
    """Change what ``study.json`` says."""
    path = folder / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | told))
    return folder


def figure_of(folder, kind="lines", **choice):
    """Return a figure of a study."""
    with house_style():
        return KINDS[kind](read_study(folder), StudyFigureOptions(**choice))[2]()


def titles(figure):
    """Return the titles of the panels, each as one line."""
    return [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes]


def legend(figure):
    """Return the names in the legend."""
    return [text.get_text() for each in figure.legends for text in each.get_texts()]
