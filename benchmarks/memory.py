"""The estimated memory of runs, compared with their measured memory.

    python benchmarks/memory.py [--only fedncf rand_gossip] [--cold]

Runs each shipped scenario with built-in data, shortened if that does not change the peak, and three larger ones: FedNCF
with the numbers of MovieLens-1M, FedCL, and many nodes. Each run is the command line in a process of its own, with the
kernels that earlier runs have compiled; with ``--cold`` none are compiled. One JSON line per run:

- ``estimate_mib``: the sum of ``memory_mib`` of ``--dry-run``, and ``parts_mib``, its parts;
- ``told_mib``: the sum of ``needed_mib`` of the run's summary;
- ``peak_rss_mib``: of the summary, the largest resident size of the process; ``ratio``: peak / estimate;
- ``process_mib``: the largest resident size of the process until its end, figures included; ``process_ratio``: this
  size / estimate.

The last line has the smallest and the largest of these ratios; the status is 1 if one is outside 1 / 1.25 to 1.25.

    python benchmarks/memory.py --phases

measures the constants of :mod:`gossiprec.emulation.assembly.memory`: the resident size of the process, in MiB, at
the beginning of each phase of some small runs, and the libraries that are loaded at the end. The size at ``loading
data`` without plots is Python's own; plots and recommenders add their modules; ``setting up observers`` adds kernels or
torch; ``simulating`` adds the training.
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

from common import emit, say

ROOT = Path(__file__).resolve().parents[1]
WITHIN = 1.25

ML1M = [
    "dataset.users=6040",
    "dataset.items=3706",
    "dataset.interactions=1000209",
]
RUNS: dict[str, tuple[str, list[str]]] = {
    "smoke": ("smoke", []),
    "small_gossip": ("small_gossip", ["protocol.wakes=60"]),
    "gossip_gru4rec": ("gossip_gru4rec", ["protocol.wakes=10"]),
    "phones": ("phones", []),
    "poisoned_gossip": ("poisoned_gossip", []),
    "fedavg": ("fedavg", ["protocol.rounds=4"]),
    "fedavg_buffered": ("fedavg_buffered", ["protocol.rounds=4"]),
    "fcf": ("fcf", ["protocol.rounds=6"]),
    "fedmf": ("fedmf", ["protocol.rounds=6"]),
    "fedncf": ("fedncf", ["protocol.rounds=6"]),
    "poisoned_fedncf": ("poisoned_fedncf", ["protocol.rounds=6"]),
    "fedcl": ("fedcl", []),
    "perfedrec_pp": ("perfedrec_pp", ["protocol.rounds=6"]),
    "cl4fedrec": ("cl4fedrec", ["protocol.rounds=3"]),
    "pdc_frs": ("pdc_frs", ["protocol.rounds=3"]),
    "central_lightgcn": ("central_lightgcn", ["protocol.epochs=4"]),
    "rand_gossip": ("rand_gossip", ["protocol.wakes=60"]),
    "fedncf of MovieLens-1M's size": ("fedncf", [*ML1M, "protocol.rounds=2", "protocol.slice=256"]),
    "fedcl of 4,000 users": (
        "fedcl",
        ["dataset.users=4000", "dataset.items=2000", "dataset.interactions=200000", "protocol.rounds=2"],
    ),
    "gossip of 5,000 nodes": (
        "rand_gossip",
        ["dataset.users=5000", "dataset.items=500", "dataset.interactions=400000", "protocol.wakes=10",
         "observers=[{name: cda, who: coalition, fraction: 0.01}]"],
    ),
}  # fmt: skip


OF_LIBRARIES: dict[str, tuple[str, list[str]]] = {
    "kernels": ("smoke", ["executor.name=fused"]),
    "reference": ("smoke", ["executor.name=reference"]),
    "batched": ("smoke", ["executor.name=batched"]),
    "central, plots": ("central_lightgcn", ["protocol.epochs=2"]),
    "clients, plots": ("fedncf", ["protocol.rounds=2"]),
    "clients, plots, scikit-learn": ("perfedrec_pp", ["protocol.rounds=2"]),
}
LIBRARIES = ("matplotlib", "networkx", "pandas", "pyarrow", "sklearn", "torch")


class Sizes:
    """Records the resident size of the process at the beginning of each phase of a run."""

    def __init__(self) -> None:
        self.mib: dict[str, float] = {}

    def phase(self, text: str) -> None:
        """Record the size."""
        from gossiprec.base.machine import resident_bytes

        self.mib[text] = round(resident_bytes() / 2**20, 1)

    def tick(self, status: Any) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Print a note."""
        say(text)


def measure_phases(name: str) -> None:
    """Print the sizes of one small run in this process."""
    from gossiprec import simulate as run_scenario
    from gossiprec.scenario import load_scenario
    from gossiprec.scenario.bundled import get_bundled

    scenario, changes = OF_LIBRARIES[name]
    sizes = Sizes()
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_scenario(get_bundled("scenarios", scenario).path, changes)
        run = run_scenario(loaded, out=Path(folder) / "run", progress=sizes)
        peak = (run.summary or {})["peak_rss_mib"]
    emit(run=name, **sizes.mib, peak=peak, loaded=[each for each in LIBRARIES if each in sys.modules])


def simulate(scenario: str, changes: list[str], *more: str, environment: dict[str, str]) -> tuple[Any, float]:
    """Return the output of a command, and the largest resident size of its process in MiB.

    Raises
    ------
    RuntimeError
        If the command fails.
    """
    from gossiprec.scenario.bundled import get_bundled

    sets = [part for change in changes for part in ("--set", change)]
    command = [
        sys.executable, "-m", "gossiprec", "simulate", str(get_bundled("scenarios", scenario).path),
        *sets, "--json", "--quiet", *more,
    ]  # fmt: skip
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, stdout=printed, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} failed")
        printed.seek(0)
        return json.loads(printed.read().splitlines()[-1]), usage.ru_maxrss / 1024


def measure(name: str, *, cold: bool) -> dict[str, Any]:
    """Return the estimate, the use and their ratio for one run."""
    scenario, changes = RUNS[name]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, MPLBACKEND="agg")
        if cold:
            environment["XDG_CACHE_HOME"] = f"{folder}/cache"
            environment["NUMBA_CACHE_DIR"] = f"{folder}/cache/kernels"
        foreseen, _ = simulate(scenario, changes, "--dry-run", environment=environment)
        run, process = simulate(scenario, changes, "--out", f"{folder}/run", environment=environment)
    parts = foreseen["memory_mib"]
    return {
        "run": name,
        "executor": run["executor"],
        "estimate_mib": sum(parts.values()),
        "told_mib": sum(run["needed_mib"].values()),
        "peak_rss_mib": run["peak_rss_mib"],
        "ratio": run["peak_rss_mib"] / sum(parts.values()),
        "process_mib": process,
        "process_ratio": process / sum(parts.values()),
        "parts_mib": {part: round(size, 1) for part, size in parts.items()},
    }


def main() -> int:
    """Run every scenario in a process of its own."""
    parser = argparse.ArgumentParser(description="Compare the estimate of a run's memory with its use.")
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS), metavar="RUN")
    parser.add_argument("--cold", action="store_true", help="compile all kernels again")
    parser.add_argument("--phases", action="store_true", help="measure the sizes of libraries")
    parser.add_argument("--here", choices=list(OF_LIBRARIES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        measure_phases(options.here)
        return 0
    if options.phases:
        for name in OF_LIBRARIES:
            subprocess.run([sys.executable, __file__, "--here", name], check=True)
        return 0
    ratios: dict[str, list[float]] = {}
    for name in options.only:
        say(name)
        found = measure(name, cold=options.cold)
        ratios[name] = [found["ratio"], found["process_ratio"]]
        emit(**found)
    least, most = min(map(min, ratios.values())), max(map(max, ratios.values()))
    outside = [name for name, both in ratios.items() if not 1 / WITHIN <= min(both) <= max(both) <= WITHIN]
    emit(least=least, most=most, outside=outside)
    return int(bool(outside))


if __name__ == "__main__":
    sys.exit(main())
