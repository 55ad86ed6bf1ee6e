"""The cost of an observed message, with compiled kernels and without.

    python benchmarks/attack_cost.py [--models gmf mf '{name: ncf, hidden: [32, 16]}'] [--wakes 20] [--rounds 3]

Rand-Gossip among 200 nodes, 500 items, every node a single adversary (CDA, momentum 0.99). The reference is `gmf` with
compiled kernels (executor `fused`); each of the given models runs with the executor `batched`. One JSON line per model:

- ``us_per_message``, ``compiled_us_per_message``: microseconds of ``attack_seconds`` (setting up, observing and
  ranking, summed over threads) per delivered message; medians.
- ``ratio``, ``ratio_min``, ``ratio_max``: the first over the second, in the same round.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from common import emit, median, say

from gossiprec import simulate
from gossiprec.scenario import Scenario, load_scenario

ROOT = Path(__file__).resolve().parents[1]


def world(model: str, executor: str, wakes: int) -> Scenario:
    """Return the scenario for a model: a name, or a mapping in YAML."""
    changes = [
        "dataset={name: synthetic, users: 200, items: 500, interactions: 20000, split: {name: published}}",
        f"model={model if model.startswith('{') else f'{{name: {model}}}'}",
        f"protocol.wakes={wakes}",
        "observers=[{name: cda, who: single, community_size: 20, momentum: 0.99, relevance: standardized}]",
        f"evaluate.every={wakes}",
        f"executor.name={executor}",
    ]
    return load_scenario(ROOT / "scenarios" / "rand_gossip.yaml", changes)


def cost(run: Scenario, folder: str) -> float:
    """Run; return the attack's seconds per message."""
    summary = simulate(run, out=Path(folder) / "run", overwrite=True).summary
    assert summary is not None
    return float(summary["attack_seconds"]["cda-single"] / summary["messages"])


def main() -> None:
    """Measure the models in turn and print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["gmf"])
    parser.add_argument("--wakes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    compiled = world("gmf", "fused", options.wakes)
    others = {model: world(model, "batched", options.wakes) for model in options.models}
    costs: dict[str, list[float]] = {model: [] for model in others}
    yardstick = []
    with tempfile.TemporaryDirectory() as folder:
        say("compiling")
        cost(world("gmf", "fused", 2), folder)
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            yardstick.append(cost(compiled, folder))
            for model, run in others.items():
                costs[model].append(cost(run, folder))
    for model, found in costs.items():
        ratios = [one / other for one, other in zip(found, yardstick, strict=True)]
        emit(
            model=model,
            us_per_message=1e6 * median(found),
            compiled_us_per_message=1e6 * median(yardstick),
            ratio=median(ratios),
            ratio_min=min(ratios),
            ratio_max=max(ratios),
            wakes=options.wakes,
            rounds=options.rounds,
        )


if __name__ == "__main__":
    main()
