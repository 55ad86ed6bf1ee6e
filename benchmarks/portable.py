"""The benefit and the cost of ``executor.portable``.

    python benchmarks/portable.py [--only NAME ...] [--rounds 3] [--keep FOLDER]

Executes some small runs for this processor and as if for others, of which this one can execute the code: LLVM gets
another name and fewer features, numpy fewer features, OpenBLAS another processor. Kernels are compiled for each. One
JSON line per run:

- ``own``: files in which a run that is not portable differs between two processors; models that differ in the last
  digit show if two items or two users change places.
- ``portable``: the same for portable runs. There must be none; otherwise the exit status is 1.
- ``own_cpu_s``, ``portable_cpu_s``: processor time of a run for this processor, kernels loaded from disk; medians.
- ``cost``, ``cost_min``, ``cost_max``: portable over own, of runs made in turn.
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

import numpy as np
from byte_worlds import SIZES
from common import emit, median, say
from trees import ROOT

from gossiprec.base import portable

TABLES = ("metrics.csv", "attacks.csv", "findings.csv", "positions.csv")
WIDER = "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL"
"""What numpy can have above the portable target, by its names since 2.4 and before."""
OTHER = "haswell"
PRETEND = """
import json, sys
import llvmlite.binding as llvm
name, has = sys.argv[1], json.loads(sys.argv[2])
features = llvm.FeatureMap({each: each in has for each in llvm.get_host_cpu_features()})
llvm.get_host_cpu_name, llvm.get_host_cpu_features = lambda: name, lambda: features
sys.argv[1:] = sys.argv[3:]
from gossiprec.entry import run
run()
"""
CDA = {
    "name": "cda", "community_size": SIZES, "reference_items": 20, "momentum": [0.99, 0],
    "relevance": ["ndcg", "standardized", "mean_score"],
}  # fmt: skip
USERS = ["dataset.users=240", "dataset.items=600", "dataset.interactions=14400"]
FINE = ["evaluate.metrics=[hr@20, ndcg@20, full_ndcg@599]", "evaluate.every=10", "executor.name=fused"]


def observed(**who: Any) -> str:
    """Return the override that makes this attack the only observer."""
    return f"observers={json.dumps([{**CDA, **who}])}"


WORLDS = {
    "rand-gossip": ("rand_gossip", [*USERS, *FINE, "protocol.wakes=120", observed(who="single")]),
    "fedavg": ("fedavg", [*USERS, *FINE, "protocol.rounds=120", observed(who="coordinator")]),
}
"""Name: scenario, and what is changed in it."""


def run(name: str, out: Path, *, is_portable: bool, pretending: bool) -> dict[str, Any]:
    """Run a scenario; return its summary.

    Raises
    ------
    RuntimeError
        If the run fails, with the last lines of its output.
    """
    scenario, changes = WORLDS[name]
    words = [
        "simulate",
        str(ROOT / "scenarios" / f"{scenario}.yaml"),
        "--out",
        str(out),
        "--overwrite",
        "--no-plots",
    ]
    for change in [*changes, f"executor.portable={json.dumps(is_portable)}", "executor.threads=1"]:
        words += ["--set", change]
    environment = {key: value for key, value in os.environ.items() if key not in portable.ENVIRONMENT}
    caller = ["-m", "gossiprec"]
    if pretending:
        old = [each for each in portable.host_features() if not each.startswith(("avx512", "avx10", "amx"))]
        caller = ["-c", PRETEND, OTHER, json.dumps(sorted(old))]
        environment |= {"NPY_DISABLE_CPU_FEATURES": WIDER, "OPENBLAS_CORETYPE": "Sandybridge"}
    done = subprocess.run(
        [sys.executable, *caller, *words],
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = " | ".join(done.stderr.strip().splitlines()[-5:])
        raise RuntimeError(f"{name} left with {done.returncode}: {last}")
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def differing(one: Path, other: Path) -> list[str]:
    """Return the files in which two runs of a scenario differ."""
    found = [table for table in TABLES if (one / table).read_bytes() != (other / table).read_bytes()]
    digests = {json.loads((path / "manifest.json").read_text())["log_digest"] for path in (one, other)}
    with np.load(one / "adversaries.npz") as here, np.load(other / "adversaries.npz") as there:
        same = here.files == there.files and all(
            here[key].tobytes() == there[key].tobytes() for key in here.files
        )
    return [*(["events.mplog"] if len(digests) > 1 else []), *found, *([] if same else ["adversaries.npz"])]


def trial(name: str, folder: Path, rounds: int) -> bool:
    """Compare and time the runs of a scenario; print the JSON line and return whether portable runs are identical."""
    differ = {}
    for is_portable in (False, True):
        word = "portable" if is_portable else "own"
        paths = [folder / f"{name}-{word}-{processor}" for processor in ("here", OTHER)]
        for path, pretending in zip(paths, (False, True), strict=True):
            say(f"{path.name}")
            run(name, path, is_portable=is_portable, pretending=pretending)
        differ[word] = differing(*paths)
    spent: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds):
        for is_portable in (False, True) if number % 2 == 0 else (True, False):
            say(f"{name}: {'portable' if is_portable else 'own'}, {number + 1} of {rounds}")
            told = run(name, folder / f"{name}-timed", is_portable=is_portable, pretending=False)
            spent[is_portable].append(told["processor_seconds"])
    ratios = [after / before for before, after in zip(*spent.values(), strict=True)]
    emit(
        world=name, target=portable.describe_target(), other=OTHER, **differ, own_cpu_s=median(spent[False]),
        portable_cpu_s=median(spent[True]), cost=median(ratios), cost_min=min(ratios), cost_max=max(ratios),
    )  # fmt: skip
    return not differ["portable"]


def main() -> int:
    """Measure all runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=WORLDS, default=list(WORLDS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3, help="pairs that are timed")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the runs in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gossiprec-portable-") as scratch:
        same = [trial(name, options.keep or Path(scratch), options.rounds) for name in options.only]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
