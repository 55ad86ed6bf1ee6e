"""``gossiprec simulate``, ``resume`` and ``replay``: run a scenario, and print its results and their location."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from gossiprec.cli import INTERRUPTED
from gossiprec.cli.options import (
    JSON,
    JSON_SUMMARY,
    NO_PLOTS,
    QUIET,
    SAFE_CSV,
    SET,
    THREADS,
    TRACK,
    OutputOptions,
    WholeNumber,
    collect_options,
    complete_files,
    out_option,
    show_output,
)
from gossiprec.cli.progress import ignore_closed_pipe, progress_display
from gossiprec.cli.terminal import echo, make_console

if TYPE_CHECKING:
    from gossiprec.runs import Run
    from gossiprec.scenario import Scenario


@click.command()
@SAFE_CSV
@click.argument("scenario", metavar="SCENARIO", shell_complete=complete_files)
@SET
@click.option("--seed", type=WholeNumber(0, 2**64 - 1), help="Short for --set seed=N.")
@click.option("--threads", type=WholeNumber(min=1), help="Short for --set executor.threads=N.")
@click.option("--executor", help="Short for --set executor.name=NAME: auto, fused, batched or reference.")
@out_option("runs/<scenario>-s<seed>")
@click.option("--overwrite", is_flag=True, help="Overwrite an existing run in DIR.")
@TRACK
@NO_PLOTS
@click.option("--dry-run", is_flag=True, help="Estimate size, memory and run time; do not run.")
@JSON_SUMMARY
@QUIET
@click.pass_context
@collect_options(OutputOptions)
def simulate(
    context: click.Context,
    output: OutputOptions,
    /,
    scenario: str,
    overrides: tuple[str, ...],
    out: Path | None,
    overwrite: bool,
    track: tuple[str, ...],
    dry_run: bool,
    **short: str | int | None,
) -> None:
    """Run the scenario file SCENARIO; - reads it from standard input.

    \b
    gossiprec init rand_gossip
    gossiprec simulate rand_gossip.yaml
    gossiprec simulate rand_gossip.yaml --set protocol.wakes=50 --seed 2
    gossiprec init cda_ml100k_fedavg
    gossiprec simulate cda_ml100k_fedavg.yaml --set dataset.path=ml-100k.zip

    Results are printed to stdout, progress to stderr. Ctrl-C or SIGTERM stops a run at its next report and
    writes a checkpoint for `gossiprec resume`; another Ctrl-C stops it immediately. Results so far stay
    readable.
    """  # noqa: D301
    from gossiprec.scenario import load_scenario
    from gossiprec.scenario.section_checks import describe_ineffective_options

    loaded = load_scenario(scenario, [*overrides, *_written_out(short)])
    for note in () if output.quiet else describe_ineffective_options(loaded):
        echo(f"note: {note}", err=True)
    path = out or Path("runs") / f"{loaded.name}-s{loaded.seed}"
    if dry_run:
        from gossiprec.emulation.run_parts.trackers import check_trackers

        check_trackers(track)
        _print_estimate(loaded, path, output)
        return
    run = run_scenario(loaded, path, overwrite=overwrite, track=track, quiet=output.quiet)
    context.exit(finish_run(run, output, plots=loaded.plots))


def finish_run(run: Run, output: OutputOptions, *, plots: bool) -> int:
    """Print the results of a run that has just ended, draw its figures if `plots`, and return the exit status."""
    interrupted = run.manifest["status"] == "interrupted"
    if interrupted:
        _say_interrupted(run)
    with ignore_closed_pipe():
        _print_results(run, as_json=output.as_json)
    if plots and not output.no_plots:
        _draw(run, as_json=output.as_json, quiet=output.quiet)
    return INTERRUPTED if interrupted else 0


def _written_out(short: dict[str, str | int | None]) -> Iterator[str]:
    """Return the short options as scenario overrides."""
    keys = {"seed": "seed", "threads": "executor.threads", "executor": "executor.name"}
    return (f"{keys[name]}={value}" for name, value in short.items() if value is not None)


def _print_estimate(scenario: Scenario, path: Path, output: OutputOptions) -> None:
    """Print the estimate of a run; afterwards refuse a run that does not fit."""
    from gossiprec.cli import summary_text
    from gossiprec.emulation import estimate_run
    from gossiprec.emulation.assembly.memory import bytes_available_to_run

    with progress_display(quiet=output.quiet) as progress:
        estimate = estimate_run(scenario, progress, kept_kernels=True)
    facts: dict[str, Any] = {
        **estimate.sizes,
        "counts": estimate.count_accuracy,
        "data": "read" if estimate.data_loaded else "estimated",
        "memory_mib": {part: size / summary_text.MIB for part, size in estimate.memory_bytes.items()},
        "observers_mib": [size / summary_text.MIB for size in estimate.bytes_by_observer],
        "available_mib": bytes_available_to_run(estimate.memory_bytes) / summary_text.MIB,
        "seconds": estimate.duration and vars(estimate.duration),
        "uncompiled": estimate.uncompiled,
        "fraction_met": estimate.fraction_met,
        "fraction_heard": estimate.fraction_heard,
        "run": str(path),
    }
    text = json.dumps(facts) if output.as_json else summary_text.format_estimate(facts, scenario.observers)
    echo(text, whole=output.as_json)
    estimate.check_fits()


def run_scenario(
    scenario: Scenario, path: Path, *, overwrite: bool, track: tuple[str, ...], quiet: bool
) -> Run:
    """Run the scenario; an output directory that is in use is refused before any work."""
    from gossiprec.emulation import simulate

    with progress_display(quiet=quiet) as progress:
        return simulate(
            scenario,
            out=path,
            overwrite=overwrite,
            progress=progress,
            track=track,
            graceful_stop=True,
            use_cached_kernels=True,
        )


def _print_results(run: Run, *, as_json: bool) -> None:
    """Print the summary, as JSON or as the closing table."""
    from gossiprec.cli import summary_text

    summary = run.summary or {}
    if as_json:
        echo(json.dumps({**summary, "run": str(run.path)}), whole=True)
        return
    echo(summary_text.format_header(summary))
    print_summary_tables(summary)
    echo(summary_text.format_footer(summary, run.path))
    if noted := summary_text.format_notes(summary):
        echo(noted)


def print_summary_tables(summary: Mapping[str, Any]) -> None:
    """Print the tables of groups, attacks and findings of a summary."""
    from gossiprec.cli import summary_text

    console = make_console(width=None if sys.stdout.isatty() else summary_text.WIDTH)
    for part, make in (("by_activity", summary_text.activity_table), ("groups", summary_text.group_table)):
        if summary.get(part):
            echo()
            console.print(make(summary[part]))
            if not summary["attacks"]:
                echo()
    if summary["attacks"]:
        echo()
        console.print(summary_text.attack_table(summary["attacks"]))
        notes = filter(None, (summary_text.ATTACK_NOTE, summary_text.tie_note(summary["attacks"])))
        echo("\n".join(notes) + "\n")
    if summary.get("findings"):
        if not summary["attacks"]:
            echo()
        for table in summary_text.finding_tables(summary["findings"]):
            console.print(table)
        echo()


def _say_interrupted(run: Run) -> None:
    from gossiprec.emulation.run.execution import restart_hint
    from gossiprec.runs.checkpoints import CheckpointFolder

    summary = run.summary or {}
    echo(
        f"interrupted at virtual time {summary['virtual_time']:.1f} after {summary['node_updates']:,} local "
        f"epochs; log, metrics and attack results up to this point are complete in {run.path}",
        err=True,
    )
    has_checkpoint = CheckpointFolder(run.path).newest_first()
    resume = f"resume with: gossiprec resume {quote(str(run.path))}"
    echo(resume if has_checkpoint else f"no checkpoint was written; {restart_hint(run.path)}", err=True)


def _draw(run: Run, *, as_json: bool, quiet: bool) -> None:
    """Draw the figures of one run; Ctrl-C skips them, and a run without figures says so."""
    from gossiprec.base.errors import LogError
    from gossiprec.cli import summary_text

    drawn: list[Path] = []
    try:
        with progress_display(quiet=quiet) as progress:
            if progress:
                progress.phase("drawing")
            from gossiprec.figures import attack_cdf, curves

            if run.adversaries:
                drawn += attack_cdf.draw([run], run.path / "cdf")
            drawn += curves.draw([run], run.path / "curves")
    except LogError as error:
        echo(f"note: no figures: {error}", err=True)
    except KeyboardInterrupt:
        echo(f"note: figures skipped; draw them with: gossiprec plot curves {quote(str(run.path))}", err=True)
    pictures = [str(path) for path in drawn if path.suffix == ".png"]
    if pictures and not as_json:
        with ignore_closed_pipe():
            echo(summary_text.format_rows({"figures": ", ".join(pictures)}))


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@THREADS
@click.option(
    "--shards",
    type=WholeNumber(1, 64),
    help="Number of shards on Ray, overriding the scenario; 1 runs without Ray.",
)
@click.option("--from-start", is_flag=True, help="Start over in RUN if no checkpoint is usable.")
@click.option(
    "--force",
    is_flag=True,
    help="Resume even if another code version wrote the checkpoint, or the manifest is damaged.",
)
@TRACK
@show_output
def resume(
    context: click.Context,
    output: OutputOptions,
    /,
    run: Path,
    threads: int | None,
    shards: int | None,
    from_start: bool,
    force: bool,
    track: tuple[str, ...],
) -> None:
    """Resume the run in RUN from its last checkpoint.

    \b
    gossiprec resume runs/rand-gossip-s1

    A run that was interrupted, failed or was killed produces the same bytes as an uninterrupted one. The
    scenario section `checkpoint` sets how often checkpoints are written.
    """  # noqa: D301
    from gossiprec.emulation import resume as resume_run
    from gossiprec.runs import open_run

    if open_run(run).manifest["status"] == "complete":
        resume_run(run)  # it may have left files if it was killed at its very end
        echo(f"{run} is complete: there is nothing to resume")
        return
    with progress_display(quiet=output.quiet) as progress:
        done = resume_run(
            run,
            threads=threads,
            shards=shards,
            from_start=from_start,
            force=force,
            track=track,
            progress=progress,
            graceful_stop=True,
        )
    context.exit(finish_run(done, output, plots=bool(done.scenario.get("plots"))))


DIFFERS = 2
"""Exit status if the rerun gave other results."""


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@THREADS
@JSON
@QUIET
@click.pass_context
def replay(context: click.Context, /, run: Path, threads: int | None, as_json: bool, quiet: bool) -> None:
    """Rerun the scenario of RUN and compare log, metrics and attacks.

    Exits with 0 if everything is identical; otherwise reports the first difference and exits with 2. The second
    run is written to a temporary directory, which is deleted; RUN is not changed. A run that ended early is
    compared up to its last report.
    """
    from gossiprec.emulation import replay as run_again

    with progress_display(quiet=quiet) as progress:
        found = run_again(run, threads=threads, progress=progress)
    if as_json:
        facts = {**vars(found), "path": str(found.path), "confirmed": found.confirmed}
        echo(json.dumps(facts, indent=2), whole=True)
    else:
        for line in found.elsewhere:
            echo(f"changed since the run: {line}")
        verdict = (
            f"confirmed, digest {found.digest}" if found.confirmed else f"not confirmed: {found.difference}"
        )
        echo(f"{found.path}: {verdict} (up to virtual time {found.upto:g})")
    context.exit(0 if found.confirmed else DIFFERS)
