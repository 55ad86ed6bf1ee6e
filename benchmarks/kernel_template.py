"""Local updates of models with kernels from the template, and of the same models as stacks of tensors.

    python benchmarks/kernel_template.py [--models biased-mf distance-mf perceptron] [--wakes 20] [--rounds 3]

Rand-Gossip of the main job (943 nodes, no observers, no evaluation), two threads. One JSON line per model:

- ``compiled_per_s``, ``stacked_per_s``: local updates with their merges per second of computing; medians.
- ``ratio``, ``ratio_min``, ``ratio_max``: the first over the second, in the same round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from common import emit, median, say

from gossiprec import simulate
from gossiprec.scenario import Scenario, load_scenario

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "examples" / "gossiprec-tutorial"))
for module in ("distance_mf", "perceptron"):
    import_module(f"gossiprec_tutorial.{module}")


def world(model: str, executor: str, wakes: int) -> Scenario:
    """Return the scenario for a model: a name, or a mapping in YAML."""
    changes = [
        f"model={model if model.startswith('{') else f'{{name: {model}}}'}",
        f"protocol.wakes={wakes}",
        "observers=[]",
        f"evaluate.every={wakes}",
        f"executor={{name: {executor}, threads: 2}}",
    ]
    return load_scenario(ROOT / "scenarios" / "rand_gossip.yaml", changes)


def speed(run: Scenario, folder: str) -> float:
    """Run; return the local updates per second of computing."""
    summary = simulate(run, out=Path(folder) / "run", overwrite=True).summary
    assert summary is not None
    return float(summary["node_updates"] / summary["seconds"]["compute"])


def main() -> None:
    """Measure the models in turn and print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["biased-mf"])
    parser.add_argument("--wakes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            say(f"{model}: compiling")
            speed(world(model, "fused", 2), folder)
            fast, slow = [], []
            for number in range(options.rounds):
                say(f"round {number + 1} of {options.rounds}")
                fast.append(speed(world(model, "fused", options.wakes), folder))
                slow.append(speed(world(model, "batched", max(2, options.wakes // 10)), folder))
            ratios = [one / other for one, other in zip(fast, slow, strict=True)]
            emit(
                model=model,
                compiled_per_s=median(fast),
                stacked_per_s=median(slow),
                ratio=median(ratios),
                ratio_min=min(ratios),
                ratio_max=max(ratios),
            )


if __name__ == "__main__":
    main()
