"""Larger runs that must give the same bytes: shipped scenarios of an old commit, shortened and changed.

They have up to 943 nodes, so that many waves, communities and ranks are compared; tiny_scenarios.py covers every
registered name. Files of a run hold rates of ranks and no scores, so a score that is rounded differently shows there
only if two items or users change places. Lists therefore go to the last item (``full_ndcg@1681``), and communities have
many sizes.
"""

from __future__ import annotations

from typing import Any

SIZES = [2, 4, 6, 10, 14, 20, 28, 40]
LARGE_SIZES = [10, 20, 50, 100, 200, 300, 450, 471]
CDA = {
    "name": "cda",
    "community_size": SIZES,
    "reference_items": 20,
    "momentum": [0.99, 0],
    "relevance": ["ndcg", "standardized", "mean_score"],
}
MIA = {"name": "entropy-mia", "community_size": SIZES, "threshold": [0.2, 0.6, 1.0], "momentum": [0.9, 0]}
AIA = {"name": "aia", "adversaries": 2, "community_size": 10, "models": 20, "epochs": 10}
SINGLE, POOLS = {"who": "single"}, {"who": "coalition", "fraction": [0.1, 0.3]}
CENTRE = {"who": "coordinator"}
HIDING = {"name": "share-less", "nodes": {"fraction": 0.7}}
NOISY = {"name": "dp-sgd", "nodes": {"fraction": 0.5}, "epsilon": 100}
LATE = {"latency": {"law": "exponential", "mean": 0.3}, "loss": 0.1}
AWAY = {"online": {"law": "exponential", "mean": 8}, "offline": {"law": "exponential", "mean": 2}}
METRICS = ["hr@20", "ndcg@20", "recall@20", "full_ndcg@20", "f1@20"]


def watched(*attackers: dict[str, Any], by: tuple[dict[str, Any], ...] = (CDA, MIA), **more: Any) -> Any:
    """Return the section of observers: each attack with each kind of attacker."""
    return {"observers": [{**attack, **who, **more} for attack in by for who in attackers]}


SMALL = {
    "dataset.users": 120,
    "dataset.items": 300,
    "dataset.interactions": 7200,
    "dataset.split": {"name": "leave_last_k", "test": 5, "validation": 3},
    "protocol.wakes": 30,
    "evaluate.every": 6,
    "executor": {"name": "fused"},
    "evaluate.metrics": [*METRICS, "full_ndcg@299"],
    **watched(SINGLE, POOLS),
}
STAR = {**SMALL, "protocol": {"name": "fedavg", "rounds": 24, "participation": 0.6}, **watched(CENTRE)}
PERS = {"name": "pers-gossip", "wakes": 30, "view": {"size": 3, "refresh": {"every": 1}}}
MOVES = {
    "dataset": {
        "name": "synthetic-checkins",
        "users": 120,
        "items": 600,
        "checkins": 9600,
        "split": {"name": "published"},
    },
    "model": {"name": "prme-g", "dim": 8},
    "training": {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": 16, "negatives": 1},
    "protocol.wakes": 30,
    "evaluate": {"every": 3, "metrics": [*METRICS, "full_ndcg@599"]},
    "executor": {"name": "fused"},
    **watched(SINGLE, POOLS, by=(CDA,)),
}
TINY = {
    "protocol.train_on": "receive",
    "protocol.wakes": 4,
    "training": {"batch_size": 16},
    "network": LATE,
    "policies": [{**HIDING, "nodes": {"fraction": 0.3}}, NOISY],
    "evaluate.metrics": [*METRICS, "full_ndcg@59"],
    **watched(SINGLE, POOLS, community_size=SIZES[:4]),
}

WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "smoke": ("smoke", {}),
    "main-job": (
        "rand_gossip",
        {
            "protocol.wakes": 60,
            "evaluate.metrics": [*METRICS, "full_ndcg@1681"],
            "observers.0.community_size": LARGE_SIZES,
            "observers.1.community_size": LARGE_SIZES,
        },
    ),
    "fedavg": (
        "fedavg",
        {
            "protocol.rounds": 12,
            "evaluate.metrics": [*METRICS, "full_ndcg@1681"],
            "observers.0.community_size": LARGE_SIZES,
        },
    ),
    "pers-gossip": ("small_gossip", {**SMALL, "protocol": PERS}),
    "share-less": ("small_gossip", {**SMALL, "policies": [HIDING]}),
    "share-less-fedavg": ("small_gossip", {**STAR, "policies": [HIDING]}),
    "dp-sgd": ("small_gossip", {**SMALL, "policies": [NOISY], "training.batch_size": "full"}),
    "dp-sgd-share-less": ("small_gossip", {**SMALL, "policies": [HIDING, NOISY]}),
    "buffered": (
        "fedavg_buffered",
        {
            "protocol.rounds": 80,
            "evaluate": {"every": 2, "metrics": [*METRICS, "full_ndcg@1681"]},
            "executor": {"name": "fused"},
            "observers.0.community_size": LARGE_SIZES,
        },
    ),
    "churn-reset": (
        "small_gossip",
        {**SMALL, "network": LATE, "churn": {"model": "reset", "messages": "held", "sessions": AWAY}},
    ),
    "proxies": ("small_gossip", {**STAR, "observers": [AIA, *watched(CENTRE)["observers"]]}),
    "averaged-users": ("small_gossip", {**STAR, "protocol.user_table": "averaged"}),
    "own-embedding": (
        "small_gossip",
        {**SMALL, "policies": [HIDING], **watched(SINGLE, POOLS, fictive_user="own_embedding")},
    ),
    "paper-user": (
        "small_gossip",
        {**SMALL, "policies": [HIDING], **watched(SINGLE, POOLS, fictive_user="paper")},
    ),
    "prme-gossip": ("small_gossip", MOVES),
    "prme-share-less": ("small_gossip", {**MOVES, "policies": [HIDING]}),
    "prme-pers-gossip": ("small_gossip", {**MOVES, "protocol": PERS}),
    "prme-fedavg": (
        "small_gossip",
        {
            **MOVES,
            "protocol": {"name": "fedavg", "rounds": 24},
            "executor.storage": "float16",
            **watched(CENTRE, by=(CDA,)),
        },
    ),
    "tiny-reference": ("smoke", {**TINY, "executor": {"name": "reference"}}),
    "tiny-batched": ("smoke", {**TINY, "executor": {"name": "batched"}}),
    "tiny-prme-batched": (
        "small_gossip",
        {
            **MOVES,
            "dataset.users": 20,
            "dataset.items": 100,
            "dataset.checkins": 600,
            "evaluate.metrics": [*METRICS, "full_ndcg@99"],
            "protocol.wakes": 6,
            "executor": {"name": "batched"},
            **watched(SINGLE, POOLS, by=(CDA,), community_size=SIZES[:4]),
        },
    ),
    "placed": (
        "smoke",
        {
            "protocol.view": {"graph": {"family": "ring", "k": 4}},
            **watched(
                SINGLE,
                {**POOLS, "placement": ["degree", "betweenness", "clustered", "greedy-cover"]},
                community_size=SIZES[:4],
            ),
        },
    ),
}
"""Name: scenario of the old commit it starts from, and what is changed there, by key path."""
