"""``python -m analysis.cda_paper --data PATH --out study/``: run or resume the study and write its report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.cda_paper.cells import all_cells
from analysis.cda_paper.experiments import all_experiments
from analysis.cda_paper.folder import StudyFolder
from analysis.cda_paper.plan import Job, chosen, jobs, require_data, subjects
from analysis.cda_paper.runs import Outcome, carry_out, duration
from gossiprec.errors import GossipRecError

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks; return the exit status.

    Returns
    -------
    int
        0; 1 if a run failed; 2 for usage and data; 130 after Ctrl-C.
    """
    options = _parser().parse_args(arguments)
    try:
        return _list() if options.list else _study(options)
    except GossipRecError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"interrupted; the same command resumes the study in {options.out}", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.cda_paper",
        description="Run or resume every experiment of the community-detection paper (arXiv 2306.08929) that the "
        "data allow, and write a report beside what the paper prints.",
    )
    parser.add_argument(
        "--data", type=Path, metavar="PATH", help="the folder of ml-100k, foursquare-nyc, gowalla"
    )
    parser.add_argument("--out", type=Path, default=Path("study"), metavar="DIR", help="default: study")
    parser.add_argument("--only", metavar="NAMES", help="such as table5,fig6 or an experiment; see --list")
    parser.add_argument(
        "--seeds", type=_count, metavar="N", help="seeds of every experiment, not its own number"
    )
    parser.add_argument(
        "--scale", choices=("full", "tiny"), default="full", help="tiny: synthetic data, seconds"
    )
    parser.add_argument("--threads", type=_count, metavar="N", help="of each run; default: one for each core")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run, and run nothing")
    parser.add_argument(
        "--report-only", action="store_true", help="write the report of the runs that are there"
    )
    parser.add_argument("--list", action="store_true", help="list what --only can name")
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, must be a whole number of at least 1")
    return int(text)


def _list() -> int:
    for name, experiments in subjects().items():
        if len(experiments) == 1 and experiments[0].name == name:
            print(f"{name}  ({experiments[0].file}, {experiments[0].data})")
        else:
            print(f"{name}: {len(experiments)} experiments")
    return 0


def _study(options: argparse.Namespace) -> int:
    only = [name.strip() for name in options.only.split(",") if name.strip()] if options.only else []
    experiments = chosen(only)
    require_data(options.data, options.scale)
    extra = [f"executor.threads={options.threads}"] if options.threads else []
    planned = jobs(experiments, data=options.data, scale=options.scale, seeds=options.seeds, extra=extra)
    folder = StudyFolder(options.out)
    if options.dry_run:
        _foresee(planned, folder)
        return 0
    folder.open(scale=options.scale)
    with folder.locked() as lock:
        outcome = Outcome() if options.report_only else carry_out(planned, folder, lock=lock, say=_say)
        written = _report(options, folder, outcome)
    _close(outcome, written)
    return 1 if outcome.failed else 0


def _foresee(planned: Sequence[Job], folder: StudyFolder) -> None:
    """Print what would be run."""
    seconds = 0.0
    for job in planned:
        if job.scenario is None:
            print(f"{job.name}: {'not run' if job.is_missing_data else 'FAILS'}: {job.problem}")
        elif folder.finished(job):
            print(f"{job.name}: finished before")
        else:
            seconds += job.experiment.seconds
            print(
                f"{job.name}: about {duration(job.experiment.seconds)}: {_shell(job.command(folder.run(job)))}"
            )
    names = {job.experiment.name for job in planned}
    cells = [c for c in all_cells() if c.measure and {e.name for e in c.measure.experiments()} & names]
    print(f"{len(planned)} runs for {len(cells)} cells, about {duration(seconds)} to go on two cores")


def _shell(command: Sequence[str]) -> str:
    return " ".join(f"'{part}'" if set(part) & set(" []{}") else part for part in command)


def _report(options: argparse.Namespace, folder: StudyFolder, outcome: Outcome) -> list[Path]:
    """Write the report of all runs that are there, also of those that were not asked for now."""
    from analysis.cda_paper.report import write_report  # with matplotlib: not for --dry-run and --list

    whole = jobs(all_experiments(), data=options.data, scale=options.scale, seeds=options.seeds)
    return write_report(whole, folder, outcome, scale=options.scale)


def _close(outcome: Outcome, written: Sequence[Path]) -> None:
    _say(
        f"runs: {len(outcome.done)} made in {duration(outcome.seconds)}, {len(outcome.kept)} finished before, "
        f"{len(outcome.skipped)} not run for want of data, {len(outcome.failed)} failed"
    )
    for name, problem in outcome.failed.items():
        print(f"failed: {name}: {problem}", file=sys.stderr)
    for path in written:
        print(path)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
