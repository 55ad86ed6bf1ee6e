"""Correctness of results: the published MovieLens-100k results, and the attack on data without communities.

    python benchmarks/right.py --data ../shared/data/ml-100k [--seeds 1 2 3] [--only gossip fedavg shuffled]

One JSON line per run and attack: the measured value, and the published one if it exists (fractions). Runs the shipped
scenarios at full length: a minute each on two cores.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from common import emit, say

from gossiprec import simulate
from gossiprec.base.ragged import Ragged
from gossiprec.emulation import prepare
from gossiprec.emulation.scoring.attack_scores import AttackRecord
from gossiprec.runs import Run
from gossiprec.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = {"gossip": "cda_ml100k_rand_gossip.yaml", "fedavg": "cda_ml100k_fedavg.yaml"}
PUBLISHED = {  # arXiv 2306.08929v2, tables 4, 5, 6 and 8: Max AAC, best 10 %
    ("gossip", "single", 0.99): (0.146, 0.32),
    ("gossip", "coalition-5%", 0.99): (0.248, 0.40),
    ("gossip", "coalition-10%", 0.99): (0.31, 0.56),
    ("gossip", "coalition-20%", 0.99): (0.45, 0.603),
    ("gossip", "coalition-5%", 0.0): (0.184, None),
    ("gossip", "coalition-10%", 0.0): (0.218, None),
    ("gossip", "coalition-20%", 0.0): (0.176, None),
    ("fedavg", "coordinator", 0.99): (0.574, 0.76),
}


def report(name: str, seed: int, run: Run) -> None:
    """Print one line per attack of a run."""
    summary = run.summary
    assert summary is not None
    for attack in summary["attacks"]:
        published = PUBLISHED.get((name, attack["observer"], attack["momentum"]), (None, None))
        keys = (
            "observer",
            "relevance",
            "momentum",
            "max_aac",
            "at_round",
            "last_aac",
            "best10_min",
            "best10_mean",
        )
        emit(
            study=name,
            seed=seed,
            **{key: attack[key] for key in keys},
            upper_bound=attack["upper_bound"],
            random_bound=attack["random_bound"],
            published_max_aac=published[0],
            published_best10=published[1],
            **summary["utility"],
        )


def shuffled(data: str, seed: int) -> None:
    """Print the attack's accuracy for communities by other users' data: each user's items go to another user.

    A model then has no information about the true communities, and a correct attack is at the random bound.
    (Dealing out single items instead would not do: users who share random items are a community, and are found.)
    """
    changes = [f"seed={seed}", f"dataset.path={data}", "protocol.rounds=8", "evaluate.every=8"]
    prepared = prepare(load_scenario(ROOT / "scenarios" / "cda_ml100k_fedavg.yaml", changes))
    split = prepared.split
    order = np.random.default_rng(seed).permutation(split.n_users)
    users = np.repeat(np.arange(split.n_users), split.train.sizes[order])
    items = np.concatenate([split.train[user] for user in order.tolist()]).astype(np.int64)
    dealt = replace(split, train=Ragged.sets_from_pairs(users, items, split.n_users))
    truth, other = AttackRecord(split, 50), AttackRecord(dealt, 50)
    for tick in prepared.schedule.play(prepared.tape_runner().run_segment):
        rankings = [ranking for attack in prepared.attacks for ranking in attack.rankings()]
        right = truth.score(rankings, time=tick.time, round=tick.round)
        wrong = other.score(rankings, time=tick.time, round=tick.round)
    for own, dealt_out in zip(right, wrong, strict=True):
        emit(
            study="shuffled",
            seed=seed,
            **{key: own[key] for key in ("observer", "relevance", "momentum")},
            aac=own["aac"],
            aac_on_shuffled=dealt_out["aac"],
            random_bound=own["random_bound"],
        )


def main() -> None:
    """Run the selected studies."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="folder or zip of MovieLens-100k")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    names = ["gossip", "fedavg", "shuffled"]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    for seed in options.seeds:
        for name in options.only:
            say(f"{name}, seed {seed}")
            if name == "shuffled":
                shuffled(options.data, seed)
                continue
            changes = [f"seed={seed}", f"dataset.path={options.data}"]
            with tempfile.TemporaryDirectory() as folder:
                scenario = load_scenario(ROOT / "scenarios" / SCENARIOS[name], changes)
                report(name, seed, simulate(scenario, out=Path(folder) / "run"))


if __name__ == "__main__":
    main()
