"""Tiny scenarios that together use every registered name and every mechanism of a run.

Each has 24 users and, once its kernels are compiled, runs in about a second. A scenario is plain data, complete in
itself, so that two commits read the same text. Paths begin with :data:`INPUTS`, which stands for the folder of
:func:`write_inputs`. Some names are no part of a scenario: trackers watch a run (:data:`TRACKERS`), and methods of
unlearning work on a finished one (:data:`COMMANDS`).
"""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

INPUTS = "INPUTS"
"""Stands for the folder of the input files."""
N_USERS, N_ITEMS = 24, 60
SPLIT = {"name": "leave_last_k", "test": 5, "validation": 2}
SYNTHETIC = {"name": "synthetic", "users": N_USERS, "items": N_ITEMS, "interactions": 600, "split": SPLIT}
CHECK_INS = {
    "name": "synthetic-checkins", "users": N_USERS, "items": N_ITEMS, "checkins": 900, "split": {"name": "published"},
}  # fmt: skip
FILM_DATA = {"name": "movielens-1m", "path": f"{INPUTS}/ml-1m", "split": SPLIT}
GMF = {"name": "gmf", "dim": 8, "init_std": 0.1}
MF = {"name": "mf", "dim": 8, "init_std": 0.1}
NCF = {"name": "ncf", "dim": 8, "hidden": [8, 4], "init_std": 0.1}
GRU = {"name": "gru4rec", "dim": 8, "hidden": 8, "max_length": 10, "loss": "sampled"}
SGD = {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": 16}
CDA = {"name": "cda", "community_size": 5, "reference_items": 20, "momentum": [0.9, 0.0]}
RULES = ["ndcg", "standardized", "mean_score"]
SINGLE, POOL, CENTRE = {"who": "single"}, {"who": "coalition", "fraction": 0.2}, {"who": "coordinator"}
AWAY = {"online": {"law": "exponential", "mean": 6}, "offline": {"law": "exponential", "mean": 2}}
LATE = {"latency": {"law": "exponential", "mean": 0.3}, "loss": 0.05}
RANKED = ["hr@5", "ndcg@5", "full_ndcg@59"]


def gossip(**changes: Any) -> dict[str, Any]:
    """Return a scenario of whole models in gossip; a section or an option of the protocol can be replaced."""
    protocol = changes.pop("protocol", {})
    return {
        "name": "tiny",
        "seed": 3,
        "plots": False,
        "dataset": SYNTHETIC,
        "model": GMF,
        "training": {"batch_size": 16},
        "protocol": protocol if "name" in protocol else {"name": "rand-gossip", "wakes": 8, **protocol},
        "evaluate": {"every": 2, "metrics": RANKED},
        "executor": {"name": "fused"},
        "checkpoint": {"every": None, "minutes": None},
        **changes,
    }


def star(**changes: Any) -> dict[str, Any]:
    """Return a scenario of FedAvg with clients that keep no model."""
    protocol = {
        "name": "fedavg", "rounds": 6, "participation": 0.75, "client_model": "none", **changes.pop("protocol", {}),
    }  # fmt: skip
    return gossip(**{"training": SGD, "executor": {"name": "auto"}, **changes, "protocol": protocol})


def poisoned(name: str, *, model: dict[str, Any] = MF, **options: Any) -> dict[str, Any]:
    """Return a scenario of clients some of which promote an item."""
    return star(
        model=model,
        attackers=[{"name": name, "number": 3, "start": 2, **options}],
        evaluate={"every": 2, "metrics": ["er@5", "recall@5"], "targets": [1, 5]},
    )


def recommending(name: str, *, model: dict[str, Any] = NCF, **options: Any) -> dict[str, Any]:
    """Return a scenario of a recommender among clients that train on all of their samples at once."""
    return star(recommender={"name": name, **options}, model=model, training={**SGD, "batch_size": "full"})


def central(name: str, *, training: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Return a scenario of a model that is trained centrally."""
    return gossip(
        protocol={"name": "central", "epochs": 4},
        model={"name": name, **options},
        training=training or {"batch_size": 16},
        executor={"name": "auto"},
    )


def seen_by(attack: str, *watchers: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """Return the section of observers: an attack with each kind of attacker."""
    return [{"name": attack, **who, **options} for who in watchers]


POISONER_OPTIONS: dict[str, dict[str, Any]] = {
    "a-hum": {"users": 5, "steps": 3},
    "a-ra": {"users": 5},
    "adaptive": {"clients": 4, "items": 10, "steps": 3},
    "clusterattack": {"most": 10, "patience": 10},
    "fedrecattack": {"knowledge": 0.5, "items": 20},
    "pamn": {"items": 10, "steps": 3, "alternatives": 3},
    "pieck": {},
    "pipattack": {"steps": 3},
    "psmu": {"items": 10, "steps": 3},
    "shilling": {"profile": "bandwagon", "items": 10},
    "spattack": {"items": 10},
}
RULE_OPTIONS: dict[str, dict[str, Any]] = {
    "bulyan": {},
    "centered-clipping": {},
    "fltrust": {"root": {"users": 5}},
    "foolsgold": {},
    "geometric-median": {},
    "hics": {},
    "item-regularisation": {},
    "krum": {},
    "mean": {},
    "median": {},
    "norm-bound": {},
    "sum": {},
    "touched-mean": {},
    "trimmed-mean": {},
    "ucsu": {},
    "union": {"items": 20},
}
SERVER_OPTIONS: dict[str, dict[str, Any]] = {
    "adam": {},
    "adaptive": {},
    "fedyogi": {},
    "momentum": {"learning_rate": 0.5},
}
GRAPH_OPTIONS: dict[str, dict[str, Any]] = {
    "barabasi-albert": {},
    "blocks-by-taste": {"nearest": 5},
    "complete": {},
    "erdos-renyi": {"p": 0.3},
    "nearest-by-taste": {"k": 3},
    "random-regular": {},
    "star": {},
    "stochastic-block": {"blocks": 2},
    "torus": {"rows": 4},
    "watts-strogatz": {},
}
ATTACK_OPTIONS: dict[str, dict[str, Any]] = {
    "imia": {"pairs": 5, "repeats": 2},
    "loss-mia": {"pairs": 5},
    "update-mia": {"pairs": 5},
}
RECOMMENDERS: dict[str, dict[str, Any]] = {
    "bil": recommending("bil", model={**GRU, "max_length": 5}, random_items=10),
    "cl4fedrec": recommending("cl4fedrec", synthetic_users=10, synthetic_items=5, fit_steps=2),
    "correlation": recommending("correlation"),
    "fed-softmax": recommending("fed-softmax", model=GRU, local_items=20, local_negatives=5),
    "fedcl": recommending("fedcl", model=GRU, local_items=20, semi_hard=10, clusters=3),
    "fedgnn": recommending("fedgnn", model={"name": "lightgcn", "dim": 8}),
    "gpfedrec": recommending("gpfedrec", model=MF),
    "last-repeat": recommending("last-repeat", model=MF),
    "pdc-frs": recommending(
        "pdc-frs", similarity={"name": "co-occurrence", "public_users": 0.3}, augmented=5, auxiliary_batch=64
    ),
    "perfedrec": recommending(
        "perfedrec", model={"name": "lightgcn", "dim": 8}, clusters={"number": 2, "first": 2, "every": 2}
    ),
    "perfedrec-pp": recommending(
        "perfedrec-pp",
        model={"name": "lightgcn", "dim": 8},
        clusters={"number": 2, "first": 2, "every": 2},
        pretraining={"epochs": 2},
    ),
    "pfedrec": recommending("pfedrec", model=MF),
    "rcl4fedrec": recommending(
        "rcl4fedrec", synthetic_users=10, synthetic_items=5, fit_steps=2, hot_items=10, sub_items=5
    ),
    "semi-hard": recommending("semi-hard", model=MF),
    "simgcl": recommending("simgcl"),
    "union": recommending("union", others=5),
}


def _observed() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the scenarios of attacks."""
    yield "cda", gossip(observers=seen_by("cda", SINGLE, POOL, **{**CDA, "relevance": RULES}))
    yield (
        "cda-star",
        star(protocol={"client_model": "own"}, executor={"name": "fused"}, observers=[{**CDA, **CENTRE}]),
    )
    yield "cda-updates", star(observers=[{**CDA, **CENTRE}])
    for executor in ("reference", "batched"):
        yield (
            f"cda-{executor}",
            gossip(
                protocol={"wakes": 4},
                executor={"name": executor},
                observers=[{**CDA, **SINGLE, "relevance": RULES}],
            ),
        )
    yield (
        "cda-float16",
        gossip(executor={"name": "batched", "storage": "float16"}, observers=[{**CDA, **SINGLE}]),
    )
    yield (
        "entropy-mia",
        gossip(
            observers=seen_by(
                "entropy-mia", SINGLE, POOL, community_size=5, threshold=[0.2, 0.6], momentum=0.9
            )
        ),
    )
    yield (
        "aia",
        gossip(
            protocol={"name": "fedavg", "rounds": 6, "client_model": "own"},
            observers=[{"name": "aia", "adversaries": 2, "community_size": 5, "models": 6, "epochs": 2}],
        ),
    )
    for attack, options in ATTACK_OPTIONS.items():
        yield attack, gossip(observers=seen_by(attack, SINGLE, POOL, **options))
    for attack in ("lira", "shadow-mia"):
        yield (
            attack,
            gossip(protocol={"wakes": 4}, observers=seen_by(attack, POOL, pairs=5, models=2, rounds=2)),
        )
    yield (
        "update-mia-centre",
        star(model=MF, observers=seen_by("update-mia", CENTRE, pairs=5), coordinator={"sees": "updates"}),
    )
    yield "reconstruction", star(observers=seen_by("reconstruction", CENTRE, precision_at=5))
    yield (
        "attributes",
        gossip(
            dataset=FILM_DATA,
            observers=seen_by("attribute-inference", SINGLE, CENTRE, attribute="gender")[:1],
            evaluate={
                "every": 2,
                "metrics": RANKED,
                "groups": [{"by": "gender"}, {"by": "activity", "parts": 2}],
            },
        ),
    )
    yield (
        "groups",
        gossip(
            observers=[{**CDA, **SINGLE}],
            evaluate={"every": 2, "metrics": RANKED, "groups": [{"by": "activity", "parts": 2}]},
        ),
    )
    yield (
        "placed",
        gossip(
            protocol={"view": {"graph": {"family": "ring", "k": 4}}},
            observers=[
                {**CDA, **POOL, "placement": ["degree", "betweenness", "clustered", "greedy-cover"]},
            ],
        ),
    )


def _networks() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the scenarios of protocols, graphs, overlays, delays and absences."""
    every_message = {"every": 1}
    yield (
        "pers-gossip",
        gossip(protocol={"name": "pers-gossip", "wakes": 8, "view": {"size": 3, "refresh": every_message}}),
    )
    yield "epidemic", gossip(protocol={"name": "epidemic", "wakes": 6})
    yield "push-pull", gossip(protocol={"name": "push-pull", "wakes": 6}, network=LATE)
    yield "semi-decentralised", gossip(protocol={"name": "semi-decentralised", "rounds": 6})
    yield "receive", gossip(protocol={"train_on": "receive", "merge": "mean"}, network=LATE)
    yield "average", gossip(protocol={"average": "all", "merge": "samples"})
    yield "averaged-users", gossip(protocol={"user_table": "averaged"})
    yield (
        "rough-network",
        gossip(
            network={
                **LATE,
                "duplication": 0.1,
                "reordering": {"share": 0.2, "delay": 1},
                "bandwidth": {"up": 20000, "down": {"law": "uniform", "low": 20000, "high": 50000}},
                "compute": {"time": {"law": "lognormal", "median": 0.2, "sigma": 0.5}, "per": "node"},
                "partitions": [{"from": 2, "until": 4, "parts": 2}],
            },
            churn={"sessions": AWAY, "messages": "held", "model": "reset", "leave": {"nodes": [7], "at": 5}},
        ),
    )
    for family, options in GRAPH_OPTIONS.items():
        yield (
            f"graph-{family}",
            gossip(protocol={"wakes": 4, "view": {"graph": {"family": family, **options}}}),
        )
    yield (
        "graph-nearest-by-place",
        gossip(
            dataset=CHECK_INS,
            model={"name": "prme-g", "dim": 8},
            training={**SGD, "learning_rate": 0.05, "negatives": 1},
            protocol={"view": {"graph": {"family": "nearest-by-place", "k": 3}}},
            observers=[{**CDA, **SINGLE}],
        ),
    )
    for name in ("cyclon", "descriptors", "newscast"):
        yield f"view-{name}", gossip(protocol={"view": {"sampling": name, "size": 4}})
    yield (
        "contacts",
        gossip(protocol={"view": {"contacts": f"{INPUTS}/contacts.csv", "unit": "wakes", "end": "repeat"}}),
    )
    for name, file, unit in (
        ("peersim", "sessions.txt", {}),
        ("fedscale", "sessions.pkl", {}),
        ("intervals", "sessions.csv", {"unit": "s"}),
    ):
        yield (
            f"sessions-{name}",
            gossip(
                seconds_per_wake=60,
                churn={
                    "sessions": {
                        "trace": f"{INPUTS}/{file}", "format": name, "reuse": True, "end": "repeat", **unit,
                    }
                },
            ),
        )  # fmt: skip


def _rounds() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the scenarios of coordinators: rules, servers, recommenders, poisoners, what is seen."""
    yield "fedavg", gossip(protocol={"name": "fedavg", "rounds": 8, "client_model": "own"})
    for name, options in RULE_OPTIONS.items():
        yield f"rule-{name}", star(protocol={"merge": {"name": name, **options}})
    for name, options in SERVER_OPTIONS.items():
        yield f"server-{name}", star(protocol={"server": {"name": name, **options}})
    for name, plain in RECOMMENDERS.items():
        yield f"recommender-{name}", plain
    yield "contribution-titles", star(
        dataset=FILM_DATA, model=NCF, training={**SGD, "batch_size": "full"},
        recommender={"name": "pdc-frs", "similarity": "titles", "augmented": 5, "auxiliary_batch": 64},
    )  # fmt: skip
    yield "contribution-words", star(
        dataset=FILM_DATA, model=NCF, training={**SGD, "batch_size": "full"},
        recommender={
            "name": "pdc-frs", "augmented": 5, "auxiliary_batch": 64,
            "similarity": {"name": "word-vectors", "path": f"{INPUTS}/words.txt"},
        },
    )  # fmt: skip
    for name, options in POISONER_OPTIONS.items():
        targets: dict[str, Any] = {} if name in ("clusterattack", "spattack") else {"targets": [1, 5]}
        yield f"poisoner-{name}", poisoned(name, **targets, **options)
    yield "poisoned-gossip", gossip(
        attackers=[{"name": "shilling", "fraction": 0.1, "boost": 5.0, "items": 10}],
        policies=[{"name": "robust-merge", "rule": "median", "buffer": 4}],
    )  # fmt: skip
    yield "sums", star(coordinator={"sees": "sums"}, network={"loss": 0.1})
    yield "final", star(coordinator={"sees": "final"})
    yield "slices", star(protocol={"rounds": 2, "participation": 1.0, "slice": 8, "close_epochs": True})
    yield "buffered", gossip(
        protocol={
            "name": "fedavg", "rounds": 20, "client_model": "own",
            "aggregation": {"name": "buffered", "buffer": 4, "concurrency": 8},
        },
        network={"compute": {"time": {"law": "exponential", "mean": 0.5}}},
    )  # fmt: skip


def _policies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the scenarios of defences."""
    half = {"fraction": 0.5}
    policies: list[tuple[str, dict[str, Any]]] = [
        ("share-less", {"nodes": half}),
        ("dp-sgd", {"nodes": half, "epsilon": 100}),
        ("ldp", {"scale": 0.01}),
        ("quantize", {"bits": 4}),
        ("top-k", {"share": 0.1}),
        ("random-k", {"k": 20}),
        ("chunks", {"pieces": 3}),
    ]
    for name, options in policies:
        yield f"policy-{name}", gossip(policies=[{"name": name, **options}], observers=[{**CDA, **SINGLE}])
    yield "policy-virtual-nodes", gossip(policies=[{"name": "chunks", "pieces": 2, "virtual_nodes": True}])
    yield "policy-secure-neighbours", gossip(
        protocol={"wakes": 4, "view": {"graph": {"family": "ring", "k": 4}}, "wake": {"law": "constant"}, "fanout": 4},
        policies=[{"name": "secure-neighbours"}],
    )  # fmt: skip
    yield "policy-updates", star(
        policies=[{"name": "top-k", "share": 0.2}, {"name": "quantize", "bits": 4}, {"name": "ldp", "scale": 0.01}]
    )  # fmt: skip
    yield "policy-low-rank", star(policies=[{"name": "low-rank", "rank": 2}])


def _models() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the scenarios of models."""
    for name, options in (
        ("biased-mf", {}), ("mf", {"loss": "bpr"}), ("ncf", {"hidden": [8, 4]}), ("neumf", {"hidden": [8, 4]}),
        ("deepfm", {"hidden": [8, 4]}), ("two-tower", {}),
    ):  # fmt: skip
        executor = {"name": "batched" if name in ("mf", "ncf") else "reference"}
        model = {"name": name, "dim": 8, **options}
        yield f"model-{name}", gossip(protocol={"wakes": 4}, model=model, executor=executor)
    yield "model-prme-g", gossip(
        dataset=CHECK_INS, model={"name": "prme-g", "dim": 8}, training={**SGD, "learning_rate": 0.05},
        observers=[{**CDA, **SINGLE}],
    )  # fmt: skip
    yield "model-gru4rec", gossip(protocol={"wakes": 3}, model=GRU, executor={"name": "batched"})
    central_models: list[tuple[str, dict[str, Any]]] = [
        ("lightgcn", {"dim": 8}), ("sgl", {"dim": 8}), ("simgcl", {"dim": 8}), ("xsimgcl", {"dim": 8}),
        ("ease", {}), ("mult-vae", {"dim": 8, "hidden": 16}), ("gru4rec", {"dim": 8, "hidden": 8}),
        ("bert4rec", {"dim": 8, "inner": 16, "layers": 1}), ("gmf", {"dim": 8}),
    ]  # fmt: skip
    for name, sizes in central_models:
        yield f"central-{name}", central(name, **sizes)
    yield "model-fedrap", star(model={"name": "fedrap", "dim": 8})


def _data() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the scenarios of data sets and splits."""
    for name, path, split in (
        ("file", "pairs.csv", {"name": "random", "test": 0.2, "validation": 0.1}),
        ("movielens-100k", "ml-100k", {"name": "published"}),
        ("movielens-1m", "ml-1m", {"name": "last", "test": 0.2}),
        ("foursquare-nyc", "foursquare", {"name": "published"}),
        ("gowalla", "gowalla", {"name": "published"}),
    ):
        yield f"data-{name}", gossip(
            protocol={"wakes": 3}, dataset={"name": name, "path": f"{INPUTS}/{path}", "split": split}
        )  # fmt: skip
    parts = {"train": f"{INPUTS}/train.txt", "test": f"{INPUTS}/test.txt", "form": "lists"}
    yield "data-files", gossip(
        protocol={"wakes": 3}, dataset={"name": "files", **parts, "split": {"name": "published"}}
    )  # fmt: skip
    yield "split-files", gossip(
        protocol={"wakes": 3},
        dataset={
            "name": "file", "path": f"{INPUTS}/pairs.csv",
            "split": {
                "name": "files", "train": f"{INPUTS}/train.csv", "test": f"{INPUTS}/test.csv", "header": True,
                "columns": ["user", "item"], "delimiter": ",",
            },
        },
    )  # fmt: skip


def _reports() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the scenarios of measures, of what is kept, and of what ends or changes a run."""
    ranked = [f"{name}@5" for name in ("hr", "hit", "ndcg", "mrr", "recall", "precision", "f1")]
    lists = [
        f"{name}@5"
        for name in ("coverage", "exposure_gini", "miscalibration", "novelty", "stratified_recall")
    ]
    yield "measures", gossip(
        dataset=FILM_DATA,
        evaluate={
            "every": 2, "metrics": [*ranked, *lists, "er@5", "val_recall@5"], "targets": {"least_popular": 2},
            "beside": ["popularity", "random"], "by_user": "all", "keep_lists": 10, "activity_groups": 2,
            "train_loss": True,
        },
    )  # fmt: skip
    yield (
        "sampled-users",
        gossip(evaluate={"every": 2, "metrics": ["recall@5"], "sample": 8, "by_user": "last"}),
    )
    yield "early-stop", gossip(
        protocol={"wakes": 30},
        evaluate={"every": 2, "metrics": ["val_recall@5", "recall@5"]},
        stop={"measure": "val_recall@5", "patience": 2},
        observers=[{**CDA, **SINGLE}],
    )  # fmt: skip
    yield (
        "changes",
        gossip(changes=[{"at": 4, "set": {"training.learning_rate": 0.001, "training.negatives": 2}}]),
    )
    yield "kept-versions", gossip(
        evaluate={"every": 2, "metrics": RANKED, "keep": "versions"}, observers=[{**CDA, **SINGLE}]
    )  # fmt: skip
    yield "kept-version", star(
        evaluate={"every": 2, "metrics": RANKED, "keep_version": True}
    )  # fmt: skip
    yield "ledger", gossip(policies=[{"name": "dp-sgd", "epsilon": 8, "unit": "user", "clip_norm": 0.5}])
    yield "shards", gossip(
        executor={"name": "ray", "shards": 1, "inner": "fused"}, observers=[{**CDA, **SINGLE}]
    )  # fmt: skip
    yield (
        "one-thread",
        gossip(executor={"name": "fused", "threads": 1, "wave_size": 5}, observers=[{**CDA, **POOL}]),
    )


def _resumed() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the scenarios of runs that are interrupted and resumed."""
    checkpoint = {"every": 2}
    yield "resumed", gossip(
        network=LATE, churn={"sessions": AWAY, "messages": "held"}, checkpoint=checkpoint,
        policies=[{"name": "dp-sgd", "epsilon": 100}],
        evaluate={"every": 2, "metrics": RANKED, "keep": {"versions": "last"}},
        observers=[*seen_by("cda", SINGLE, POOL, **CDA), *seen_by("loss-mia", SINGLE, pairs=5)],
    )  # fmt: skip
    yield "resumed-rounds", star(
        protocol={"server": {"name": "adam"}}, policies=[{"name": "top-k", "share": 0.2}],
        observers=[{**CDA, **CENTRE}], checkpoint=checkpoint,
        evaluate={"every": 2, "metrics": RANKED, "keep_version": True},
        attackers=[{"name": "shilling", "number": 3, "start": 2, "profile": "bandwagon", "items": 10}],
    )  # fmt: skip
    yield (
        "resumed-central",
        {
            **central("gmf"),
            "checkpoint": checkpoint,
            "evaluate": {"every": 1, "metrics": ["val_recall@5", *RANKED], "keep_version": True},
        },
    )


SCENARIOS: dict[str, dict[str, Any]] = dict(
    entry
    for family in (_observed, _networks, _rounds, _policies, _models, _data, _reports, _resumed)
    for entry in family()
)
"""The scenarios by name, as plain data."""
TRACKERS = {"cda": ["tensorboard"], "cda-updates": ["mlflow"]}
"""Trackers of the runs of some scenarios."""
INTERRUPTED = {"resumed": 4.0, "resumed-rounds": 3.0, "resumed-central": 2.0}
"""Virtual time at which the runs of some scenarios are interrupted at a report and resumed."""
METHODS = ("cfru", "fine-tune", "fru", "retrain")
COMMANDS: dict[str, list[list[str]]] = {
    "rule-mean": [
        ["unlearn", "rule-mean/run", "--without-node", "3", "-k", "5", "--json", "--quiet"]
        + [word for method in METHODS for word in ("--method", method)],
    ],
    "receive": [
        ["unlearn", "receive/run", "--without-node", "3", "-k", "5", "--json", "--quiet"],
        ["counterfactual", "receive/run", "--without-node", "3", "--out", "receive/without", "--json", "--quiet"],
        ["influence", "receive/run", "receive/without", "-k", "5", "--json", "--quiet"],
        ["observe", "receive/run", "--observers", f"{INPUTS}/seen.yaml", "--json", "--quiet"],
    ],
    "kept-versions": [
        ["observe", "kept-versions/run", "--observers", f"{INPUTS}/seen.yaml", "--stored", "--json", "--quiet"]
    ],
    "ledger": [
        ["epsilon", "ledger/run", "--json", "--quiet"],
        ["audit", "ledger/run", "--updates", "2", "--canaries", "2", "--json", "--quiet"],
    ],
}  # fmt: skip
"""Commands on the finished runs of some scenarios. The run of NAME is in the folder ``NAME/run``."""


def write_inputs(folder: Path) -> None:
    """Write the input files, which are the same at each call."""
    folder.mkdir(parents=True, exist_ok=True)
    draws = np.random.default_rng(7)
    rows = [
        (user, int(item), int(draws.integers(1, 6)), 1_000_000 + 100 * place + user)
        for user in range(N_USERS)
        for place, item in enumerate(draws.permutation(N_ITEMS)[: 12 + user % 9])
    ]
    _write_pairs(folder, rows)
    _write_films(folder, rows)
    _write_places(folder, rows, draws)
    _write_sessions(folder)
    seen = {
        "observers": seen_by("entropy-mia", SINGLE, community_size=5),
        "evaluate": {"metrics": ["recall@10"]},
    }
    (folder / "seen.yaml").write_text(json.dumps(seen))
    words = sorted({word for item in range(N_ITEMS) for word in _title(item).lower().split()})
    vectors = draws.normal(size=(len(words), 4)).round(3)
    lines = [f"{word} {' '.join(map(str, vector))}" for word, vector in zip(words, vectors, strict=True)]
    (folder / "words.txt").write_text("\n".join(lines) + "\n")


def _title(item: int) -> str:
    return f"Red Film {'ABCDEFGH'[item % 8]}{item // 8}"


def _write_pairs(folder: Path, rows: list[tuple[int, int, int, int]]) -> None:
    """Write pairs with ratings and times, and their division into training and test items."""
    lines = [",".join(map(str, row)) for row in rows]
    (folder / "pairs.csv").write_text("\n".join(["user,item,rating,time", *lines]) + "\n")
    for name, is_test in (("train", False), ("test", True)):
        chosen = [(user, item) for user, item, _, time in rows if (time // 100 % 5 == 0) == is_test]
        pairs = "\n".join(f"{user},{item}" for user, item in chosen)
        (folder / f"{name}.csv").write_text(f"user,item\n{pairs}\n")
        lists = [" ".join(str(item) for owner, item in chosen if owner == user) for user in range(N_USERS)]
        text = "\n".join(f"{user} {items}" for user, items in enumerate(lists) if items)
        (folder / f"{name}.txt").write_text(text + "\n")


def _write_films(folder: Path, rows: list[tuple[int, int, int, int]]) -> None:
    """Write the same pairs in the forms of MovieLens, with titles and users' attributes."""
    small, large = folder / "ml-100k", folder / "ml-1m"
    small.mkdir(exist_ok=True)
    large.mkdir(exist_ok=True)
    tabs = ["\t".join(map(str, (user + 1, item + 1, *rest))) for user, item, *rest in rows]
    (small / "u.data").write_text("\n".join(tabs) + "\n")
    for name, is_test in (("ua.base", False), ("ua.test", True)):
        chosen = [line for line, row in zip(tabs, rows, strict=True) if (row[3] // 100 % 5 == 0) == is_test]
        (small / name).write_text("\n".join(chosen) + "\n")
    colons = ["::".join(map(str, (user + 1, item + 1, *rest))) for user, item, *rest in rows]
    (large / "ratings.dat").write_text("\n".join(colons) + "\n")
    films = [f"{item + 1}::{_title(item)} (1990)::Comedy|Drama" for item in range(N_ITEMS)]
    (large / "movies.dat").write_text("\n".join(films) + "\n")
    people = [f"{user + 1}::{'FM'[user % 2]}::{25 + user % 3}::4::12345" for user in range(N_USERS)]
    (large / "users.dat").write_text("\n".join(people) + "\n")


def _write_places(folder: Path, rows: list[tuple[int, int, int, int]], draws: np.random.Generator) -> None:
    """Write the same pairs as check-ins of Foursquare and of Gowalla."""
    places = draws.uniform([40.5, -74.2], [40.9, -73.7], size=(N_ITEMS, 2)).round(4).tolist()
    (folder / "foursquare").mkdir(exist_ok=True)
    (folder / "gowalla").mkdir(exist_ok=True)
    check_ins, spots = [], []
    for user, item, _, time in rows:
        day, minute = time // 100 % 28 + 1, time % 60
        latitude, longitude = places[item]
        when = f"Tue Apr {day:02} 18:{minute:02}:09 +0000 2012"
        check_ins.append(
            "\t".join(map(str, (user + 1, f"v{item:02}", "c", "Café", latitude, longitude, -240, when)))
        )
        stamp = f"2010-10-{day:02}T23:{minute:02}:27Z"
        spots.append("\t".join(map(str, (user, stamp, latitude, longitude, 100 + item))))
    text = "\n".join(check_ins) + "\n"
    (folder / "foursquare" / "dataset_TSMC2014_NYC.txt").write_bytes(text.encode("latin-1"))
    with gzip.GzipFile(folder / "gowalla" / "loc-gowalla_totalCheckins.txt.gz", "wb", mtime=0) as packed:
        packed.write(("\n".join(spots) + "\n").encode())


def _write_sessions(folder: Path) -> None:
    """Write contacts, and the sessions of six devices in each format."""
    contacts = [
        f"{time / 4},{(time * 5) % N_USERS},{(time * 7 + 1) % N_USERS},1.5"
        for time in range(48)
        if (time * 5) % N_USERS != (time * 7 + 1) % N_USERS
    ]
    (folder / "contacts.csv").write_text("\n".join(["time,i,j,duration", *contacts]) + "\n")
    spans = {device: [(20 * device, 20 * device + 150), (300, 380 + device)] for device in range(6)}
    intervals = [f"{device},{begin},{end}" for device, found in spans.items() for begin, end in found]
    (folder / "sessions.csv").write_text("\n".join(["device,from,until", *intervals]) + "\n")
    clients = {
        device: {
            "active": [begin for begin, _ in found], "inactive": [end for _, end in found], "finish_time": 500,
        }
        for device, found in spans.items()
    }  # fmt: skip
    (folder / "sessions.pkl").write_bytes(pickle.dumps(clients, protocol=4))
    devices = [
        f"device{device} 1 1325370000000 UTC 120000 60000 {90000 + device} 200000" for device in range(6)
    ]
    (folder / "sessions.txt").write_text("\n".join(devices) + "\n")
