"""``python -m analysis.cda_paper --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from analysis.cda_paper.experiments import data_of, experiments
from analysis.cda_paper.measures import Runs
from analysis.cda_paper.plan import Scale, chosen, count_runs, missing_data, paper_study, subjects
from gossiprec.cli.main import exit_code
from gossiprec.cli.study import conduct, conducting
from gossiprec.eventlog import Run
from gossiprec.study.folder import StudyFolder, made_by
from gossiprec.study.plan import Plan, make_plan
from gossiprec.study.record import Outcome
from gossiprec.version import code_version


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="PATH", help="Holds ml-100k, foursquare-nyc, gowalla."
)
@click.option("--only", default="", metavar="NAMES", help="Such as table5,fig6 or an experiment; see --list.")
@click.option(
    "--seeds",
    type=click.IntRange(1),
    metavar="N",
    help="Seeds of experiments that name no number.  [default: 5]",
)
@click.option(
    "--scale",
    type=click.Choice(("full", "tiny")),
    default="full",
    help="tiny: small synthetic data, no number means anything.",
)
@click.option("--report-only", is_flag=True, help="Write the report of the runs that are there.")
@click.option("--list", "is_list", is_flag=True, help="List what --only can name.")
@conducting
@click.pass_context
def study(
    context: click.Context,
    /,
    data: Path | None,
    only: str,
    seeds: int | None,
    scale: Scale,
    *,
    report_only: bool,
    is_list: bool,
    out: Path | None,
    jobs: int | None,
    **how: Any,
) -> None:
    """Run or resume every experiment of the community-detection paper (arXiv 2306.08929) that the data allow, and write
    a report beside what the paper prints. One run at a time on all cores if --jobs is not given: the large ones need
    the memory, and times are told.
    """
    if is_list:
        _list()
        return
    names = chosen([name.strip() for name in only.split(",") if name.strip()])
    lacking = missing_data(experiments(), data=data, scale=scale)
    for name in names:
        if name in lacking:
            click.echo(f"{name}: not run: {lacking[name]}", err=True)
    folder, outcome = StudyFolder(out or Path("study")), Outcome()
    here: dict[str, Any] = {"data": data, "scale": scale, "seeds": seeds}
    wanted = [name for name in names if name not in lacking and not report_only]
    if wanted:
        outcome = conduct(make_plan(paper_study(wanted, **here)), out=folder.path, jobs=jobs or 1, **how)
    if how["dry_run"]:
        return
    there = [name for name in experiments() if name not in lacking]
    whole = make_plan(paper_study(there, **here), check_data=False)
    folder.check(whole.study.name)
    runs = finished(folder, whole, keep=how["keep"])
    reasons = why_missing(runs, whole, lacking, outcome)
    from analysis.cda_paper.report import write_report  # with matplotlib: not for --dry-run and --list

    with folder.locked():
        for path in write_report(folder.path, runs, reasons, planned=count_runs(seeds, scale), scale=scale):
            click.echo(path)
    if outcome.failed:
        context.exit(1)


def _list() -> None:
    for name, own in subjects().items():
        if name in experiments():
            click.echo(f"{name}  ({Path(experiments()[name]['base']).name}, {data_of(name)})")
        else:
            click.echo(f"{name}: {len(own)} experiments")


def finished(folder: StudyFolder, plan: Plan, *, keep: bool = False) -> dict[str, dict[int, Run]]:
    """Return the finished runs of a plan by experiment and seed; `keep`: also those of other code."""
    simulation_of = plan.simulation_of
    found: dict[str, dict[int, Run]] = {}
    for variant in plan.variants:
        run = folder.finished(simulation_of[variant.hash])
        if run is not None and (keep or made_by(run) == code_version()):
            found.setdefault(str(variant.labels["experiment"]), {})[variant.seed] = run
    return found


def why_missing(runs: Runs, plan: Plan, lacking: dict[str, str], outcome: Outcome) -> dict[str, str]:
    """Return why an experiment has no finished run."""
    failed = {
        str(variant.labels["experiment"]): f"failed: {outcome.failed[variant.hash].problem}"
        for variant in plan.variants
        if variant.hash in outcome.failed
    }
    return {n: (lacking | failed).get(n, "not run yet") for n in experiments() if n not in runs}


if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], study, name="python -m analysis.cda_paper"))
