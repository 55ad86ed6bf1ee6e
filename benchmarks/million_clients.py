"""A federation of a million clients next to one of ten thousand: rate, set-up and memory.

    python benchmarks/million_clients.py [--users 10000 1000000] [--kinds fedncf fcf lightgcn] [--rounds 3]

40 interactions per user of 100,000 items, synthetic; clients without models, all of a round chosen at random (1 % of
them, at least 1,000); 10,000 users are measured. Each run has a process of its own. One JSON line per run, with the
processor:

- ``clients_per_s``: clients trained per wall second of training; ``of_fewest``: over that of the smallest federation;
- ``clients_per_cpu_s`` and ``cpu_of_fewest``: the same for processor seconds of everything after the set-up;
- ``setup_s``, ``setup_cpu_s``: until the first client trains;
- ``peak_rss_mib``, and ``needed_mib``, what ``--dry-run`` says; ``metric`` and ``standard_error``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import emit, say
from scale import COMPILING, Phases

MODELS: dict[str, dict[str, Any]] = {
    "fedncf": {"name": "ncf", "dim": 16, "hidden": [32, 16, 8]},
    "fcf": {"name": "mf", "dim": 16},
    "lightgcn": {"name": "lightgcn", "dim": 16, "layers": 2},
}
METRIC = "hr@10"


def measure(kind: str, users: int, rounds: int) -> dict[str, Any]:
    """Run one federation and return the measurements."""
    from gossiprec import simulate
    from gossiprec.base.machine import processor_name
    from gossiprec.scenario import load_scenario

    scenario = {
        "name": kind,
        "plots": False,
        "dataset": {
            "name": "synthetic", "users": users, "items": 100_000, "interactions": 40 * users,
            "split": {"name": "leave_last_k", "test": 1},
        },
        "model": MODELS[kind],
        "training": {"optimizer": "adam", "learning_rate": 0.01, "batch_size": "full", "negatives": 4},
        "protocol": {
            "name": "fedavg", "rounds": rounds, "participation": max(0.01, 1000 / users), "client_model": "none",
            "merge": "touched-mean",
        },
        "evaluate": {"every": rounds, "metrics": [METRIC], "sample": min(users, 10_000)},
    }  # fmt: skip
    phases = Phases()
    with tempfile.TemporaryDirectory() as folder:
        summary = simulate(load_scenario(scenario), out=Path(folder) / "run", progress=phases).summary
    assert summary is not None
    spent = {text: each for text, each in phases.spent().items() if not text.startswith(COMPILING)}
    order = list(spent)
    begin = order.index("simulating")
    cpu = sum(spent[text][1] for text in order[begin:])
    return {
        "kind": kind,
        "users": users,
        "clients_per_s": summary["node_updates"] / summary["seconds"]["compute"],
        "clients_per_cpu_s": summary["node_updates"] / cpu,
        "setup_s": sum(spent[text][0] for text in order[:begin]),
        "setup_cpu_s": sum(spent[text][1] for text in order[:begin]),
        "peak_rss_mib": summary["peak_rss_mib"],
        "needed_mib": sum(summary["needed_mib"].values()),
        "metric": summary["utility"][METRIC],
        "standard_error": summary["measured"]["standard_errors"][METRIC],
        "processor": processor_name(),
    }


def main() -> None:
    """Run every federation in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--kinds", nargs="+", choices=[*MODELS], default=[*MODELS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--here", action="store_true", help="run in this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.kinds[0], options.users[0], options.rounds)))
        return
    for kind in options.kinds:
        fewest: dict[str, Any] = {}
        for users in options.users:
            say(f"{kind}, {users} users")
            size = ["--kinds", kind, "--users", str(users), "--rounds", str(options.rounds)]
            done = subprocess.run(
                [sys.executable, __file__, "--here", *size], check=True, stdout=subprocess.PIPE, text=True
            )
            found = json.loads(done.stdout.splitlines()[-1])
            fewest = fewest or found
            ratios = {
                "of_fewest": found["clients_per_s"] / fewest["clients_per_s"],
                "cpu_of_fewest": found["clients_per_cpu_s"] / fewest["clients_per_cpu_s"],
            }
            emit(**found, **ratios)


if __name__ == "__main__":
    main()
