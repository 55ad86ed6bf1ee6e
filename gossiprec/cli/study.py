"""``gossiprec study``: run many variants of a scenario, and collect their results in one table."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from gossiprec.base.machine import usable_cores
from gossiprec.cli import INTERRUPTED
from gossiprec.cli.options import (
    QUIET,
    SAFE_CSV,
    TRACK,
    Decorator,
    WholeNumber,
    add_options,
    collect_options,
    complete_settings,
)
from gossiprec.cli.terminal import echo, make_console

if TYPE_CHECKING:
    from gossiprec.cli.progress import StudyProgressState
    from gossiprec.emulation.estimate.estimate import RunEstimate
    from gossiprec.study.folder import StudyOutcome
    from gossiprec.study.plan import StudyPlan
    from gossiprec.study.run_hash import SharedSimulation
    from gossiprec.study.runner import StaleRuns, Start, StudyRunner
    from gossiprec.study.spec import LoadedStudy


@dataclass(frozen=True)
class StudyOptions:
    """The options of carrying out a study on the command line.

    Attributes
    ----------
    out : Path or None
        The study's folder; ``studies/<name>`` if None.
    jobs : int or None
        Number of worker processes; one per core if None.
    address : str or None
        Address of a Ray cluster; None runs on this machine.
    dry_run : bool
    again, keep : bool
        Treatment of finished runs of other code or data.
    track : tuple of str
        Trackers of each run.
    quiet : bool
    """

    out: Path | None
    jobs: int | None
    address: str | None
    dry_run: bool
    again: bool
    keep: bool
    track: tuple[str, ...]
    quiet: bool


def study_options(jobs: str) -> Decorator[Callable[..., Any]]:
    """Return a decorator that adds the options of :class:`StudyOptions`; `jobs` names the default number of jobs."""
    return add_options(
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Study folder.  [default: studies/<name>]",
        ),
        click.option(
            "--jobs", type=WholeNumber(1, 1024), metavar="N", help=f"Worker processes.  [default: {jobs}]"
        ),
        click.option(
            "--ray",
            "address",
            is_flag=False,
            flag_value="local",
            metavar="[ADDRESS]",
            help="Run on a Ray cluster at ADDRESS (auto or host:port); without ADDRESS, start Ray on "
            "this machine.",
        ),
        click.option("--dry-run", is_flag=True, help="Check all runs and print what would be run."),
        click.option("--again", is_flag=True, help="Rerun finished runs of other code or data."),
        click.option("--keep", is_flag=True, help="Keep finished runs of other code or data."),
        TRACK,
        QUIET,
    )


@click.command()
@SAFE_CSV
@click.argument("study", metavar="STUDY", type=click.Path(path_type=Path))
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_settings,
    help="Override a key in every run, like `set` in the study file; axes take precedence (repeatable).",
)
@click.option(
    "--seeds",
    type=WholeNumber(min=1),
    metavar="N",
    help="Use seeds 1 to N instead of the seeds in the file.",
)
@click.option("--limit", type=WholeNumber(min=1), metavar="N", help="Run only the first N combinations.")
@click.option(
    "--search",
    "searches",
    is_flag=True,
    help="STUDY is a search: combinations are chosen by earlier results (search.method optuna).",
)
@study_options("one per core")
@click.pass_context
@collect_options(StudyOptions)
def study(
    context: click.Context,
    options: StudyOptions,
    /,
    study: Path,
    overrides: tuple[str, ...],
    seeds: int | None,
    limit: int | None,
    searches: bool,
) -> None:
    """Run the study file STUDY: a base scenario, axes and seeds.

    \b
    gossiprec init churn
    gossiprec study studies/churn.yaml
    gossiprec study studies/churn.yaml --seeds 1 --limit 2 --set protocol.wakes=20
    gossiprec study studies/churn.yaml --jobs 2 --out studies/tonight
    gossiprec study studies/churn.yaml --dry-run
    gossiprec study studies/churn.yaml --ray auto
    gossiprec study --search mine.yaml

    The command prints means over seeds at the end, and writes DIR/table.parquet and DIR/table.csv with one row
    per run and measure. Finished runs are not repeated: the same command continues a study that was interrupted
    or enlarged.
    """  # noqa: D301
    from gossiprec.study.plan import make_plan
    from gossiprec.study.spec import load_study, with_overrides

    loaded = with_overrides(load_study(study), overrides, seeds)
    method = loaded.file.search.method
    if searches and method != "optuna":
        raise click.UsageError(
            f"--search: found search.method {method!r} in {study}; expected optuna, with minimize or maximize"
        )
    if method == "optuna":
        context.exit(_search(loaded, options, limit))
    plan = make_plan(loaded, limit=limit)
    outcome = run_study(plan, options)
    if not options.dry_run:
        _print_means(options.out or Path("studies") / plan.study.name)
    if outcome.failed:
        context.exit(1)


def _search(study: LoadedStudy, options: StudyOptions, limit: int | None) -> int:
    """Carry out a search, print its best trial, and return the exit status: 1 if no trial meets the constraints."""
    from gossiprec.emulation.progress import sigterm_as_interrupt
    from gossiprec.measures.direction import better_sign
    from gossiprec.measures.selectors import read_measure
    from gossiprec.runs.search_record import STATES, best_trial, describe_trial
    from gossiprec.study.folder import StudyFolder
    from gossiprec.study.plan import make_plan
    from gossiprec.study.search import Search
    from gossiprec.study.study_table import CSV

    if (options.jobs or 1) > 1 or options.address or options.track:
        raise click.UsageError(
            "a search runs one combination after the other in this process; remove --jobs, --ray and --track"
        )
    folder, stale_runs = StudyFolder(options.out or Path("studies") / study.name), _stale_runs(options)
    folder.check(study.name)
    plan, wanted = make_plan(study), study.file.search
    note = (lambda text: None) if options.quiet else functools.partial(echo, err=True)
    search = Search(plan, folder, stale_runs, limit, note)
    aim, worst = ("highest", -1) if wanted.maximize else ("lowest", 1)
    if better_sign(read_measure(wanted.objective).name) == worst:
        echo(f"note: looking for the {aim} {wanted.objective}, the worst for users", err=True)
    per_trial = max(1, len(plan.variants) // 2)
    echo(f"{study.name}: {search.n_trials} trials, {per_trial} runs each", err=not options.dry_run)
    if options.dry_run:
        return 0
    try:
        with folder.locked(study.name), sigterm_as_interrupt():
            found = search.run()
    except KeyboardInterrupt:
        echo("interrupted; run the same command to continue", err=True)
        return INTERRUPTED
    states, best = [STATES[trial.state.name] for trial in found.trials], best_trial(found)
    counts = ", ".join(f"{states.count(state)} {state}" for state in STATES.values())
    echo(f"{len(states)} trials: {counts}")
    echo(f"best: {describe_trial(best)}" if best else "no trial meets the constraints")
    echo(folder.path / CSV, whole=True)
    echo(f"page: gossiprec report {quote(str(folder.path))}")
    return 0 if best else 1


def _stale_runs(options: StudyOptions) -> StaleRuns:
    if options.again and options.keep:
        raise click.UsageError("--again and --keep cannot be combined")
    return "again" if options.again else "keep" if options.keep else "refuse"


def run_study(plan: StudyPlan, options: StudyOptions) -> StudyOutcome:
    """Carry out a study with the options of the command and show its progress; return the outcome.

    Raises
    ------
    GossipRecError
        If the folder is no folder of this study, or holds runs of other code, or Ray cannot be reached.
    click.exceptions.Exit
        After Ctrl-C.
    """
    from gossiprec.emulation.assembly.shard_partition import require_ray
    from gossiprec.study.folder import StudyFolder
    from gossiprec.study.runner import StudyRunner
    from gossiprec.study.worker_pool import INSTEAD

    stale_runs = _stale_runs(options)
    folder = StudyFolder(options.out or Path("studies") / plan.study.name)
    folder.check(plan.study.name)
    runner = StudyRunner(plan, folder, options.track)
    if options.address:
        require_ray(INSTEAD)
    if options.dry_run:
        _print_estimate(runner, stale_runs, options)
        return runner.outcome
    runner.check_target()
    echo(describe_plan_size(plan), err=True)
    with folder.locked(plan.study.name):
        todo = runner.find_unfinished(stale_runs=stale_runs)
        outcome = _run_simulations(runner, todo, options)
    _close(runner, outcome)
    return outcome


def _run_simulations(
    runner: StudyRunner, todo: list[SharedSimulation], options: StudyOptions
) -> StudyOutcome:
    """Run the open simulations; Ctrl-C and SIGTERM end the study with a hint on how to continue it."""
    from gossiprec.cli.progress import study_progress_display
    from gossiprec.emulation.progress import sigterm_as_interrupt
    from gossiprec.study.runner import TimeLeft, estimate_runs, plan_run

    planned = {hash_: plan_run(estimate) for hash_, estimate in estimate_runs(todo).items()}
    left = TimeLeft(planned, None if options.address else count_jobs(options.jobs, len(todo)))
    try:
        shown = study_progress_display(
            lambda hash_: runner.record.variant_labels(hash_)[0], left, quiet=options.quiet
        )
        with sigterm_as_interrupt(), shown as tally:
            start = _workers(options, len(todo), tally)
            return runner.carry_out(todo, start, tally)
    except KeyboardInterrupt:
        outcome, path = runner.outcome, runner.folder.path
        echo(
            f"interrupted: {outcome.kept + outcome.made} of {runner.record.n_simulations} runs are finished, "
            f"and their rows are in {path / 'table.csv'}; run the same command to continue",
            err=True,
        )
        raise click.exceptions.Exit(INTERRUPTED) from None


def _workers(options: StudyOptions, n_tasks: int, tally: StudyProgressState) -> Start:
    """Return the function that carries out tasks: local processes or Ray."""
    from gossiprec.study.task import threads_per_job
    from gossiprec.study.worker_pool import RayRunner, WorkerPool

    if options.address:
        return RayRunner(options.address, options.jobs, tally.note_activity).carry_out
    number = count_jobs(options.jobs, n_tasks)
    return WorkerPool(number, threads_per_job(number), tally.note_activity).carry_out


def count_jobs(jobs: int | None, n_tasks: int) -> int:
    """Return the number of tasks that run in parallel on this machine."""
    return max(1, min(jobs or usable_cores(), n_tasks))


def describe_plan_size(plan: StudyPlan) -> str:
    """Return the size of a study as text."""
    n_variants, n_simulations = len(plan.variants), len(plan.simulations)
    n_points = len({tuple(v.labels.items()) for v in plan.variants})
    text = f"{plan.study.name}: {n_points} combinations, {n_variants} runs"
    if plan.n_repeated:
        text += f", {plan.n_repeated} of them identical after resolving defaults"
    if n_simulations < n_variants - plan.n_repeated:
        text += "; runs that differ only in observers share a simulation"
    return f"{text}: {n_simulations} simulations"


def _print_estimate(runner: StudyRunner, stale_runs: StaleRuns, options: StudyOptions) -> None:
    """Print what a study would run: number, largest run, expected duration, and each run.

    Raises
    ------
    ResourceError
        If the largest run does not fit.
    """
    from gossiprec.base.errors import GossipRecError
    from gossiprec.study.runner import estimate_runs

    plan = runner.plan
    todo = {simulation.hash for simulation in runner.find_unfinished(stale_runs=stale_runs)}
    echo(describe_plan_size(plan))
    estimates = estimate_runs(plan.simulations)
    possible = {hash_: found for hash_, found in estimates.items() if not isinstance(found, GossipRecError)}
    largest = max(possible.values(), key=lambda each: sum(each.memory_bytes.values()), default=None)
    at_a_time = count_jobs(options.jobs, len(todo))
    if largest is not None:
        memory = sum(largest.memory_bytes.values()) / 2**20
        most = "at most " if largest.count_accuracy == "at most" else ""
        echo(
            f"largest: {most}{largest.sizes['node_updates']:,} local epochs of {largest.sizes['executor']}, about "
            f"{memory:,.0f} MiB; {at_a_time} run in parallel"
        )
        echo(f"time: {_time_of([possible[hash_] for hash_ in todo if hash_ in possible], at_a_time)}")
    echo(f"to run: {len(todo)}, already finished: {runner.outcome.kept}, folder: {runner.folder.path}")
    for simulation in plan.simulations:
        how = "to run" if simulation.hash in todo else "finished"
        found = estimates[simulation.hash]
        why = f": would fail: {found}" if isinstance(found, GossipRecError) else ""
        for label in runner.record.variant_labels(simulation.hash):
            echo(f"  {simulation.hash}  {how:8}  {label}{why}")
    if largest is not None:
        largest.check_fits()


def _time_of(possible: list[RunEstimate], at_a_time: int) -> str:
    """Return the expected duration of the remaining runs, as text."""
    from gossiprec.cli.summary_text import NO_TIME, format_duration

    known = [estimate.duration for estimate in possible if estimate.duration is not None]
    if len(known) < len(possible):
        return NO_TIME
    low, middle, high = (
        format_duration(sum(getattr(found, part) for found in known) / at_a_time)
        for part in ("low", "seconds", "high")
    )
    return f"about {middle} ({low} to {high}), from earlier runs on this machine"


def _print_means(folder: Path) -> None:
    """Print the means, and the commands to look further."""
    from gossiprec.cli import summary_text
    from gossiprec.cli.progress import format_table_note, means_table
    from gossiprec.figures.study.table_reader import read_study

    table = read_study(folder, or_empty=True)
    if table.values:
        echo()
        make_console(width=None if sys.stdout.isatty() else summary_text.WIDTH).print(means_table(table))
    echo(format_table_note(table, folder))


def _close(runner: StudyRunner, outcome: StudyOutcome) -> None:
    """Print the finished and failed runs, and the path of the table."""
    path = runner.folder.path
    echo(
        f"{outcome.made} runs finished in {outcome.seconds:,.1f} s, {outcome.kept} already finished, "
        f"{len(outcome.failed)} failed",
        err=True,
    )
    by_problem: dict[str, list[str]] = {}
    for hash_, done in outcome.failed.items():
        by_problem.setdefault(done.problem, []).extend(runner.record.variant_labels(hash_))
    for problem, labels in by_problem.items():
        more = f" (and {len(labels) - 1} more)" if len(labels) > 1 else ""
        echo(f"failed: {labels[0]}{more}: {problem}", err=True)
    for note, hashes in outcome.notes.items():
        more = f" (and {len(hashes) - 1} more)" if len(hashes) > 1 else ""
        echo(f"note: {runner.record.variant_labels(hashes[0])[0]}{more}: {note}", err=True)
    if outcome.failed:
        echo(f"see {path / 'study.json'}; run the same command to retry", err=True)
    echo(path / "table.parquet", whole=True)
    echo(path / "table.csv", whole=True)
