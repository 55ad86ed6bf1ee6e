"""The experiments of the study that names select: tables, figures, data sets and experiments."""

from __future__ import annotations

from functools import cache

from analysis.cda_paper.cells import report_cells
from analysis.cda_paper.experiments import STUDY, dataset_name, variant_experiments
from analysis.cda_paper.figures import paper_figures

MOVIELENS_TABLES = tuple(f"table{place}" for place in range(4, 11))
"""Tables that ``movielens-tables`` selects, with the table of switches."""


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments that each name of ``--only`` selects: tables, figures, data sets and experiments."""
    tables: dict[str, dict[str, None]] = {}
    for cell in report_cells():
        if cell.measure is not None:
            name = cell.printed.table.removesuffix("-bounds")
            tables.setdefault(name, {}).update(dict.fromkeys(cell.measure.experiments))
    movielens = {
        name for table in MOVIELENS_TABLES for name in tables[table] if dataset_name(name) == "ml-100k"
    } | set(variant_experiments().values())
    return {
        **{name: tuple(serving) for name, serving in tables.items()},
        "movielens-tables": tuple(name for name in STUDY.experiments if name in movielens),
        "switches": tuple(variant_experiments().values()),
        **{name: drawing.experiments for name, drawing in paper_figures().items()},
        **{
            data: tuple(name for name in STUDY.experiments if dataset_name(name) == data)
            for data in STUDY.plan["data"]
        },
        **{name: (name,) for name in STUDY.experiments},
    }
