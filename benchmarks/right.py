"""Correctness of results: the published MovieLens-100k results, the attack on data without communities, and ties.

    python benchmarks/right.py --data ../shared/data/ml-100k [--seeds 1 2 3] [--only gossip fedavg shuffled ties]

One JSON line per run and attack: the measured value, and the published one if it exists (fractions). Runs the shipped
scenarios at full length: a minute each on two cores. ``ties`` reads the data sets beside that folder, in seconds.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import emit, say

from gossiprec import simulate
from gossiprec.base.ragged import Ragged
from gossiprec.data import DATASETS
from gossiprec.data.loading import validate_dataset_options
from gossiprec.emulation import prepare
from gossiprec.emulation.scoring.ranking_scores import RankingScores
from gossiprec.measures.attack_accuracy import accuracies, guess_top_victims
from gossiprec.measures.communities import jaccard_communities
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
LISTS = {"form": "lists"}
TIED: dict[str, tuple[str, dict[str, Any]]] = {
    "Yelp of sequential work (FedCL's)": ("file", {"path": "yelp/Yelp_s3rec.txt.gz", **LISTS}),
    "Amazon Sports": ("file", {"path": "amazon/Sports_and_Outdoors.txt.gz", **LISTS}),
    "Amazon Beauty": ("file", {"path": "amazon/Beauty.txt.gz", **LISTS}),
    "Amazon Office": ("file", {"path": "amazon/Office_Products.txt", **LISTS}),
    "Foursquare": ("foursquare-nyc", {"path": "foursquare-nyc", "flags": 2}),
    "MovieLens-100k": ("movielens-100k", {"path": "ml-100k"}),
}
"""Data sets and their options, by their names in docs/record/measured/ties.csv."""


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
    split = prepared.components.split
    order = np.random.default_rng(seed).permutation(split.n_users)
    users = np.repeat(np.arange(split.n_users), split.train.sizes[order])
    items = np.concatenate([split.train[user] for user in order.tolist()]).astype(np.int64)
    dealt = replace(split, train=Ragged.sets_from_pairs(users, items, split.n_users))
    truth, other = RankingScores(split, 50), RankingScores(dealt, 50)
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


def ties(data: Path, k: int = 50) -> None:
    """Print what equal scores and a perfect ranking find of communities by all interactions, and what ties decide.

    The first 1,000 users of the sparse sets. `by_ids`: ties go by the order of ids, of scores and of similarities.
    """
    for name, (kind, options) in TIED.items():
        source = DATASETS[kind]
        given = {**options, "path": data / options["path"]}
        read = source(validate_dataset_options(source.Options, given, name)).load(1)
        n = min(read.n_users, 1000 if kind == "file" else read.n_users)
        users, items = read.users[read.users < n], read.items[read.users < n]
        sets = Ragged.sets_from_pairs(users, items, n)
        found = jaccard_communities(sets, n_items=read.n_items, k=k)
        near = np.zeros((n, read.n_items), dtype=np.float32)
        near[users, items] = 1
        both, size = (near @ near.T).astype(np.float64), near.sum(axis=1, dtype=np.float64)
        similarity = both / (size[:, None] + size - both) - 2 * np.eye(n)
        constant = np.where(np.eye(n), np.nan, 0).astype(np.float32)
        true, first = (np.argsort(-one, axis=1, kind="stable")[:, :k] for one in (similarity, -np.eye(n)))
        emit(
            study="ties",
            row=name,
            users=n,
            random_bound=k / n,
            by_ids=np.mean([len(np.intersect1d(*pair)) / k for pair in zip(true, first, strict=True)]),
            now=accuracies(constant, guess_top_victims(constant, k), found).mean(),
            tied=found.tied_fractions.mean(),
            perfect=(found.membership_matrix() ** 2).sum() / (n * k),
        )


def main() -> None:
    """Run the selected studies."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="folder or zip of MovieLens-100k")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    names = ["gossip", "fedavg", "shuffled"]
    parser.add_argument("--only", nargs="+", choices=[*names, "ties"], default=names)
    options = parser.parse_args()
    if "ties" in options.only:
        ties(Path(options.data).resolve().parent)
    for seed in options.seeds:
        for name in (name for name in options.only if name != "ties"):
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
