"""The speed of the present tree, compared with an old commit.

    python benchmarks/paired.py [--commit 323b822 | --old TREE] [--tree .] [--data ../shared/data/ml-100k] [--rounds 5]

Runs the main job, and FedAvg and Pers-Gossip on MovieLens-100k (synthetic data without ``--data``), with the old code
and with the present code, in separate processes, in turn; the order changes from pair to pair. A short run of each job
compiles first. One JSON line per job:

- ``old_s``, ``new_s``: seconds of wall time without loading and compiling; medians.
- ``ratio``, ``ratio_min``, ``ratio_max``: new over old, of the runs of a pair.
- ``parts``: the same ratio for each part that took at least a twentieth of the old run's time.

``--old`` takes an existing checkout, for which kernels are compiled only once.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path
from typing import Any

from common import emit, median, say
from trees import BEFORE, ROOT, checkout, simulate

COMPILED = ["executor.name=fused", "evaluate.metrics=[hr@20, ndcg@20]"]
JOBS: dict[str, tuple[str, str, int]] = {
    "main-job": ("rand_gossip", "protocol.wakes", 150),
    "fedavg": ("cda_ml100k_fedavg", "protocol.rounds", 60),
    "pers-gossip": ("cda_table5_ml100k_pers_gossip", "protocol.wakes", 100),
}
"""Name: scenario of the old commit, what says how long it is, and how long."""
MADE_UP = "dataset={name: synthetic, split: {name: leave_last_k, test: 10, validation: 8}}"


def data_of(job: str, folder: Path | None) -> tuple[str, list[str]]:
    """Return the name of a job's data, and the overrides of the scenario."""
    if job == "main-job":
        return "synthetic", []
    return ("synthetic", [MADE_UP]) if folder is None else (folder.name, [f"dataset.path={folder.resolve()}"])


def measured(tree: Path, scenario: Path, changes: list[str]) -> dict[str, float]:
    """Run; return the seconds of each part, and of the whole without loading and compiling."""
    with tempfile.TemporaryDirectory(prefix="gossiprec-paired-") as folder:
        summary = simulate(tree, scenario, Path(folder) / "run", [*COMPILED, *changes])
    seconds: dict[str, float] = summary["seconds"]
    parts = {part: spent for part, spent in seconds.items() if part not in ("load", "compile")}
    return {**parts, "whole": summary["wall_seconds"] - seconds["load"] - seconds["compile"]}


def pairs(trees: dict[str, Path], scenario: Path, changes: list[str], rounds: int) -> list[dict[str, Any]]:
    """Return the seconds of old and new runs, pair by pair."""
    found = []
    for number in range(rounds):
        say(f"  pair {number + 1} of {rounds}")
        order = list(trees) if number % 2 == 0 else list(reversed(trees))
        found.append({side: measured(trees[side], scenario, changes) for side in order})
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
    with contextlib.nullcontext(options.old) if options.old else checkout(options.commit) as old:
        trees = {"old": old.resolve(), "new": options.tree.resolve()}
        for job in options.only:
            base, length, full = JOBS[job]
            (scenario,) = (trees["old"] / "scenarios").rglob(f"{base}.yaml")
            data, changes = data_of(job, options.data)
            say(f"{job}: compiling")
            for tree in trees.values():
                measured(tree, scenario, [*changes, f"{length}=4"])
            found = pairs(trees, scenario, [*changes, f"{length}={full}"], options.rounds)
            report(job, found, rounds=options.rounds, data=data)


if __name__ == "__main__":
    main()
