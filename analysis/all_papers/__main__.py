"""``python -m analysis.all_papers --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from analysis.all_papers.plan import DATA, STUDY, experiments, make_study, selectable_names
from analysis.papers.command import (
    add_study_options,
    list_subjects,
    parse_names,
    run_and_report,
    select_experiments,
)
from analysis.papers.study_file import Scale, missing_data
from analysis.papers.verdict import Runs
from gossiprec.cli.main import exit_code
from gossiprec.study.load import LoadedStudy


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--dataset", type=click.Choice(tuple(DATA)), default="movielens-100k", help="Data set of all rows."
)
@add_study_options(
    data="Folder that contains ml-100k or ml-1m.",
    only="Run only these, such as plain, watched, attacked, row-fedncf or an experiment; see --list.",
    seeds="Seeds of every experiment.  [default: 1]",
)
def main(
    context: click.Context,
    /,
    dataset: str,
    data: Path | None,
    only: str,
    seeds: int | None,
    scale: Scale,
    *,
    is_list: bool,
    **how: Any,
) -> None:
    """Run or resume every recommender on the same data, splits and seeds, and write one table of what is measured."""
    there = list(experiments())
    if is_list:
        list_subjects(selectable_names(), there)
        return
    names = select_experiments(parse_names(only), selectable_names(), there)
    places = {dataset: DATA[dataset]}
    without = missing_data(there, places, lambda _: dataset, data=data, scale=scale)

    def report(folder: Path, runs: Runs, reasons: dict[str, str]) -> list[Path]:
        from analysis.all_papers.report import write_study_report  # imported late: the list needs none of it

        return write_study_report(folder, runs, reasons, planned=STUDY.count_runs(seeds), scale=scale)

    def study_of(some: Sequence[str]) -> LoadedStudy:
        return make_study(some, data=data, dataset=dataset, scale=scale, seeds=seeds)

    if run_and_report(names, study_of, without, report, experiments=there, **how).failed:
        context.exit(1)


if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], main, name="python -m analysis.all_papers"))
