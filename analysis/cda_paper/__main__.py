"""``python -m analysis.cda_paper --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from analysis.cda_paper.experiments import dataset_name, experiments
from analysis.cda_paper.plan import (
    count_runs,
    missing_data,
    paper_study,
    select_experiments,
    selectable_names,
)
from analysis.papers.command import add_study_options, parse_names, run_and_report
from analysis.papers.study_file import Scale
from analysis.papers.verdict import Runs
from gossiprec.cli.main import exit_code


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@add_study_options(
    data="Folder that contains ml-100k, foursquare-nyc and gowalla.",
    only="Run only these, such as table5,fig6 or an experiment; see --list.",
    seeds="Number of seeds of experiments that do not set it.  [default: 5]",
)
def study(
    context: click.Context,
    /,
    data: Path | None,
    only: str,
    seeds: int | None,
    scale: Scale,
    *,
    is_list: bool,
    **how: Any,
) -> None:
    """Run or resume every experiment of the community-detection paper (arXiv 2306.08929) that the data allow, and write
    a report that compares them with the paper. The large ones need the memory of one job; times are reported.
    """
    if is_list:
        _list()
        return
    names = select_experiments(parse_names(only))
    lacking = missing_data(experiments(), data=data, scale=scale)

    def report(folder: Path, runs: Runs, reasons: dict[str, str]) -> list[Path]:
        from analysis.cda_paper.report import write_report  # with matplotlib: not for --dry-run and --list

        return write_report(folder, runs, reasons, planned=count_runs(seeds, scale), scale=scale)

    outcome = run_and_report(
        names, lambda some: paper_study(some, data=data, scale=scale, seeds=seeds), lacking, report,
        experiments=list(experiments()), **how,
    )  # fmt: skip
    if outcome.failed:
        context.exit(1)


def _list() -> None:
    for name, own in selectable_names().items():
        if name in experiments():
            click.echo(f"{name}  ({Path(experiments()[name]['base']).name}, {dataset_name(name)})")
        else:
            click.echo(f"{name}: {len(own)} experiments")


if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], study, name="python -m analysis.cda_paper"))
