"""Trial of the times that ``simulate --dry-run`` gives: is the true time inside the interval?

Each of 20 scenarios of 5 to 30 seconds on a quiet machine is estimated and then run, in processes of their own::

    python benchmarks/estimates.py [--only WORD]

prints a JSON line per scenario (seconds, low and high of the dry run, the true seconds, ``inside``, the load before),
and last the number inside, their share, and the median of high over low. The true time is that of the summary: wall
time without compiling. The folder of earlier times is empty at first, so that each estimate follows from the runs of
the scenarios before it, if any is similar. One pass takes about ten minutes.

The rule and the list are fixed before a pass. A list that is changed because a scenario missed is no trial.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import emit, median, say

ROOT = Path(__file__).resolve().parents[1]
GOSSIP = "small_gossip.yaml"
SCENARIOS: dict[str, tuple[str, ...]] = {
    "gossip": (GOSSIP, "protocol.wakes=480"),
    "gossip-large": (GOSSIP, "dataset.users=1000", "dataset.interactions=100000", "protocol.wakes=100"),
    "gossip-wide": (GOSSIP, "model.dim=64", "protocol.wakes=100"),
    "gossip-batched": (GOSSIP, "executor.name=batched", "protocol.wakes=15"),
    "gossip-no-attack": (GOSSIP, "observers=[]", "protocol.wakes=600"),
    "gossip-reports": (GOSSIP, "evaluate.every=2"),
    "gossip-share-less": (GOSSIP, "policies=[{name: share-less, nodes: all}]", "protocol.wakes=400"),
    "gossip-dp": (GOSSIP, "policies=[{name: dp-sgd, nodes: all, epsilon: 10}]", "protocol.wakes=150"),
    "push-pull": ("push_pull.yaml", "protocol.wakes=400"),
    "semi-decentralised": ("semi_decentralised.yaml", "protocol.rounds=400"),
    "phones": ("phones.yaml", "protocol.wakes=800"),
    "sequences": ("gossip_gru4rec.yaml", "protocol.wakes=8"),
    "fedavg": ("fedavg.yaml", "protocol.rounds=30"),
    "fcf": ("fcf.yaml", "protocol.rounds=300"),
    "fedncf": ("fedncf.yaml", "protocol.rounds=400"),
    "poisoned-fedncf": ("poisoned_fedncf.yaml", "protocol.rounds=300"),
    "cl4fedrec": ("cl4fedrec.yaml",),
    "pdc-frs": ("pdc_frs.yaml", "protocol.rounds=100"),
    "perfedrec": ("perfedrec_pp.yaml", "protocol.rounds=200"),
    "fedcl": ("fedcl.yaml", "protocol.rounds=60"),
}


def gossiprec(*arguments: str, rates: Path) -> dict[str, Any]:
    """Run a command; return its output, read as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "gossiprec", *arguments, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "GOSSIPREC_RATES": str(rates)},
    )
    if done.returncode:
        raise SystemExit(f"gossiprec {' '.join(arguments)} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def trial(name: str, folder: Path, rates: Path) -> dict[str, Any]:
    """Return the estimate of a scenario, its true time, and whether the interval contains it."""
    file, *changes = SCENARIOS[name]
    sets = [word for change in changes for word in ("--set", change)]
    scenario = ["simulate", str(ROOT / "scenarios" / file), *sets, "--out", str(folder / name)]
    load = os.getloadavg()[0]
    found = gossiprec(*scenario, "--dry-run", rates=rates)["seconds"]
    summary = gossiprec(*scenario, "--no-plots", "--quiet", rates=rates)
    true = summary["wall_seconds"] - summary["seconds"].get("compile", 0.0)
    return {
        "scenario": name,
        "estimate": found and found["seconds"],
        "low": found and found["low"],
        "high": found and found["high"],
        "true": true,
        "inside": bool(found) and found["low"] <= true <= found["high"],
        "processor": summary["processor_seconds"],
        "load": load,
    }


def main() -> None:
    """Run the trial."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default="", metavar="WORD", help="Only the scenarios with this word in their name."
    )
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in (name for name in SCENARIOS if options.only in name):
            say(name)
            found.append(trial(name, Path(folder), Path(folder) / "rates"))
            emit(**found[-1])
    widths = [each["high"] / each["low"] for each in found if each["estimate"]]
    emit(
        inside=sum(each["inside"] for each in found),
        of=len(found),
        without_estimate=len(found) - len(widths),
        median_width=median(widths) if widths else None,
        true_seconds=sum(each["true"] for each in found),
        cores=os.cpu_count(),
    )


if __name__ == "__main__":
    main()
