"""The cost of protocols, defences and observers, compared with plain Rand-Gossip.

    python benchmarks/relative.py [--wakes 60] [--rounds 3] [--data ../shared/data/ml-100k] [--variants chunks top_k]

One JSON line: local epochs per second of each variant over the same number for plain Rand-Gossip without observers, or
with 943 single adversaries if the variant has them too (medians of ratios within a round, in which each variant runs
once), and the time that these adversaries add.
Times include events and arithmetic, but not loading, compiling and evaluating the models.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from common import emit, median, say

from gossiprec import simulate
from gossiprec.scenario import Scenario, load_scenario

PERS = "protocol={name: pers-gossip, wakes: 1, view: {size: 3, refresh: {every: 1}}}"
ALL_SINGLE = (
    "{name: cda, who: single, nodes: all, community_size: 50, momentum: 0.99, relevance: standardized}"
)
OBSERVED = f"observers=[{ALL_SINGLE}]"
CHUNKS, TOP_K = "policies=[{name: chunks, pieces: 3}]", "policies=[{name: top-k}]"
FULL = "training.batch_size=full"
VARIANTS: dict[str, list[str]] = {
    "rand": [],
    "rand_full_batch": [FULL],
    "pers": [PERS],
    "share_less": ["policies=[{name: share-less}]"],
    "dp_full_batch": [FULL, "policies=[{name: dp-sgd, epsilon: 100}]"],
    "dp_batch_64": ["policies=[{name: dp-sgd, epsilon: 100}]"],
    "rand_all_single": [OBSERVED],
    "chunks": [CHUNKS],
    "top_k": [TOP_K],
    "chunks_all_single": [CHUNKS, OBSERVED],
    "top_k_all_single": [TOP_K, OBSERVED],
}
PLAIN = ("rand", "rand_all_single")
"""The variants with which others are compared: without and with observers."""


def scenario(changes: list[str], *, wakes: int, data: str | None) -> Scenario:
    """Return the published setting with overrides."""
    source: dict[str, Any] = {
        "name": "relative",
        "preset": "full943",
        "dataset": {"name": "synthetic", "split": {"name": "leave_last_k", "test": 10, "validation": 8}},
        "observers": [],
    }
    if data:
        source["dataset"] = {"name": "movielens-100k", "path": data, "split": {"name": "published"}}
    ends = [f"protocol.wakes={wakes}", f"evaluate.every={wakes}", "executor.name=fused", "plots=false"]
    return load_scenario(source, [*changes, *ends])


def timed(run: Scenario, folder: Path) -> tuple[float, float]:
    """Return local epochs per second, and the seconds of events, arithmetic and attacks."""
    summary = simulate(run, out=folder / "run", overwrite=True).summary
    assert summary is not None
    parts = ("control", "plan", "compute", "learn", "log", "attacks")
    seconds = sum(summary["seconds"].get(part, 0.0) for part in parts)
    return summary["node_updates"] / seconds, seconds


def _plain(name: str) -> str:
    observed = name.endswith("_all_single") and name not in PLAIN
    return "rand_all_single" if observed else "rand"


def main() -> None:
    """Measure and print the line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--wakes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", help="folder or zip of MovieLens-100k; without it, synthetic data")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=[*VARIANTS])
    options = parser.parse_args()
    names = list(dict.fromkeys([*PLAIN, *options.variants]))
    runs = {name: scenario(VARIANTS[name], wakes=options.wakes, data=options.data) for name in names}
    ratios: dict[str, list[float]] = {name: [] for name in names}
    added, plain = [], []
    with tempfile.TemporaryDirectory() as folder:
        say("compiling")
        for name in names:
            timed(scenario(VARIANTS[name], wakes=4, data=options.data), Path(folder))
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            found = {name: timed(run, Path(folder)) for name, run in runs.items()}
            plain.append(found["rand"][0])
            added.append(found["rand_all_single"][1] / found["rand"][1] - 1.0)
            for name, (rate, _) in found.items():
                ratios[name].append(rate / found[_plain(name)][0])
    emit(
        rand_per_s=median(plain),
        **{
            f"{name}_over_{_plain(name)}": median(found)
            for name, found in ratios.items()
            if name != _plain(name)
        },
        all_single_adds=median(added),
        wakes=options.wakes,
        data=options.data or "synthetic",
    )


if __name__ == "__main__":
    main()
