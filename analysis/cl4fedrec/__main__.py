"""``python -m analysis.cl4fedrec --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from analysis.cl4fedrec.experiments import experiments, subjects
from analysis.cl4fedrec.plan import Scale, count_runs, epochs_of, paper_study, place_of_data
from analysis.papers.command import asked, carry_out, chosen, names_in
from analysis.papers.seeds import Runs
from gossiprec.cli.main import exit_code


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@asked(
    data="Holds ml-1m.",
    only="Such as table2-file-adam5,exposure-a-hum or an experiment; see --list.",
    seeds="Seeds of every experiment.  [default: 3]",
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    metavar="N",
    help="Of every run: fewer for a shorter study.  [default: 20]",
)
def study(
    context: click.Context,
    /,
    data: Path | None,
    only: str,
    seeds: int | None,
    epochs: int | None,
    scale: Scale,
    *,
    is_list: bool,
    **how: Any,
) -> None:
    """Run or resume the experiments of the CL4FedRec paper (arXiv 2403.20107) on MovieLens-1M, and write a report
    beside what the paper prints. The whole takes half a day: choose with --only, --seeds and --epochs.
    """
    if is_list:
        _list()
        return
    names = chosen(names_in(only), subjects(), experiments())
    place = place_of_data(data, scale)
    length = epochs_of(scale, epochs)

    def report(folder: Path, runs: Runs, reasons: dict[str, str]) -> list[Path]:
        from analysis.cl4fedrec.report import write_report  # with matplotlib: not for --dry-run and --list

        return write_report(folder, runs, reasons, planned=count_runs(seeds), epochs=length, scale=scale)

    outcome = carry_out(
        names, lambda some: paper_study(some, data=place, scale=scale, seeds=seeds, epochs=epochs), {}, report,
        experiments=list(experiments()), **how,
    )  # fmt: skip
    if outcome.failed:
        context.exit(1)


def _list() -> None:
    for name, own in subjects().items():
        click.echo(name if name in experiments() else f"{name}: {len(own)} experiments")


if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], study, name="python -m analysis.cl4fedrec"))
