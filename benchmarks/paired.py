"""The speed of the present tree, compared with an old commit.

    python benchmarks/paired.py [--commit c7f803f2 | --old TREE] [--tree .] [--data ../shared/data/ml-100k] [--rounds 5]

Runs the main job, FedAvg and Pers-Gossip on MovieLens-100k (synthetic data without ``--data``), and the jobs of
federated.py, with the old code and with the present code, in separate processes, in turn; the order changes from pair
to pair. A short run of each job compiles first. One JSON line per job:

- ``old_s``, ``new_s``: seconds of wall time without loading and compiling; medians.
- ``ratio``, ``ratio_min``, ``ratio_max``: new over old, of the runs of a pair.
- ``parts``: the same ratio for each part that took at least a twentieth of the old run's time.

``--old`` takes an existing checkout, for which kernels are compiled only once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from common import emit, median, say
from federated_scenarios import contributed, one_step, pairs, passes, sequences
from trees import BEFORE, ROOT, checkout, simulate

THREADS = 2
COMPILED = ["executor.name=fused", "evaluate.metrics=[hr@20, ndcg@20]"]
FEW_RANKINGS = ["evaluate.sample=100"]
"""In rounds of clients without a model, the ranking of all users would take most of the time."""
MADE_UP = "dataset={name: synthetic, split: {name: leave_last_k, test: 10, validation: 8}}"


class Job(NamedTuple):
    """A job of a given length.

    Attributes
    ----------
    scenario : str or callable
        Name of a scenario of the old commit, or a function of a number of rounds and of threads that returns one.
    full : int
        Length of the measured run.
    length : str
        Key of the length in a named scenario.
    """

    scenario: str | Callable[[int, int], dict[str, Any]]
    full: int
    length: str = ""


JOBS = {
    "main-job": Job("rand_gossip", 150, "protocol.wakes"),
    "fedavg": Job("cda_ml100k_fedavg", 60, "protocol.rounds"),
    "pers-gossip": Job("cda_table5_ml100k_pers_gossip", 100, "protocol.wakes"),
    "passes-of-adam": Job(passes, 24),
    "one-step": Job(one_step, 240),
    "pdc-frs": Job(contributed, 24),
    "pairs": Job(pairs, 20),
    "sequences": Job(sequences, 200),
}
COMPILING = 4
"""Length of the run that compiles."""


class TimedRun(NamedTuple):
    """A scenario file, and the overrides of it."""

    scenario: Path
    changes: list[str]


def run_of(job: Job, length: int, old: Path, data: Path | None, scratch: Path) -> TimedRun:
    """Return the run of a job, of which a scenario that is computed is written to the scratch folder."""
    if callable(job.scenario):
        file = scratch / f"{length}.yaml"
        file.write_text(json.dumps(job.scenario(length, THREADS)))
        return TimedRun(file, FEW_RANKINGS)
    (file,) = (old / "scenarios").rglob(f"{job.scenario}.yaml")
    changes = [*COMPILED, f"{job.length}={length}"]
    if is_movielens(job):
        changes.append(MADE_UP if data is None else f"dataset.path={data.resolve()}")
    return TimedRun(file, changes)


def is_movielens(job: Job) -> bool:
    """Return whether a job takes MovieLens-100k if it is there."""
    return isinstance(job.scenario, str) and "ml100k" in job.scenario


def measured(tree: Path, run: TimedRun) -> dict[str, float]:
    """Run; return the seconds of each part, and of the whole without loading and compiling."""
    with tempfile.TemporaryDirectory(prefix="gossiprec-paired-") as folder:
        summary = simulate(tree, run.scenario, Path(folder) / "run", run.changes)
    seconds: dict[str, float] = summary["seconds"]
    parts = {part: spent for part, spent in seconds.items() if part not in ("load", "compile")}
    return {**parts, "whole": summary["wall_seconds"] - seconds["load"] - seconds["compile"]}


def measured_pairs(trees: dict[str, Path], run: TimedRun, rounds: int) -> list[dict[str, Any]]:
    """Return the seconds of old and new runs, pair by pair."""
    found = []
    for number in range(rounds):
        say(f"  pair {number + 1} of {rounds}")
        order = list(trees) if number % 2 == 0 else list(reversed(trees))
        found.append({side: measured(trees[side], run) for side in order})
    return found


def report(job: str, found: list[dict[str, Any]], **settings: Any) -> None:
    """Print the JSON line of a job."""
    first = found[0]["old"]
    ratios = {
        part: [pair["new"].get(part, 0.0) / pair["old"][part] for pair in found]
        for part, spent in first.items()
        if spent >= first["whole"] / 20
    }
    whole = ratios.pop("whole")
    emit(
        job=job,
        old_s=median([pair["old"]["whole"] for pair in found]),
        new_s=median([pair["new"]["whole"] for pair in found]),
        ratio=median(whole),
        ratio_min=min(whole),
        ratio_max=max(whole),
        parts={part: round(median(several), 3) for part, several in ratios.items()},
        **settings,
    )


def main() -> None:
    """Measure and print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--commit", default=BEFORE)
    which.add_argument("--old", type=Path, metavar="TREE", help="a checkout of the old commit")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the present tree")
    parser.add_argument("--data", type=Path, help="folder of MovieLens-100k; without it, synthetic data")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS), metavar="JOB")
    options = parser.parse_args()
    with (
        contextlib.nullcontext(options.old) if options.old else checkout(options.commit) as old,
        tempfile.TemporaryDirectory(prefix="gossiprec-jobs-") as scratch,
    ):
        trees = {"old": old.resolve(), "new": options.tree.resolve()}
        for name in options.only:
            job = JOBS[name]
            short, full = (
                run_of(job, each, trees["old"], options.data, Path(scratch)) for each in (COMPILING, job.full)
            )
            say(f"{name}: compiling")
            for tree in trees.values():
                measured(tree, short)
            data = options.data.name if options.data and is_movielens(job) else "synthetic"
            report(name, measured_pairs(trees, full, options.rounds), rounds=options.rounds, data=data)


if __name__ == "__main__":
    main()
