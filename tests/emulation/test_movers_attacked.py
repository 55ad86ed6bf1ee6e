"""Whole runs of a model of moves (PRME-G) with observers: every executor tells them the same."""

import numpy as np
import pytest

from tests.emulation.tiny_runs import carried_out, tiny
from tests.slow import slow_except_first

N = 16
CITY = {"name": "synthetic-checkins", "users": N, "items": 80, "checkins": 600, "communities": 3}
GOSSIP = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 4}
PERSONAL = {"name": "pers-gossip", "view": {"size": 3}, "wakes": 4}
FEDAVG = {"name": "fedavg", "rounds": 3}
RULES = ["standardized", "ndcg", "mean_score"]


def observed(protocol, who, *, executor, storage="float32", policies=(), upto=None, **options):
    observer = {
        "name": "cda",
        "community_size": 4,
        "reference_items": 20,
        "relevance": RULES,
        **who,
        **options,
    }
    return carried_out(
        tiny(
            dataset={**CITY, "split": {"name": "published"}},
            model={"name": "prme-g", "dim": 6, "init_std": 0.1},
            training={"optimizer": "sgd", "learning_rate": 0.02, "batch_size": 16, "negatives": 1},
            protocol=protocol,
            observers=[observer],
            policies=list(policies),
            evaluate={"every": 2, "metrics": ["hr@5"]},
            executor={"name": executor, "storage": storage, "threads": 2},
        ),
        upto,
    )


def scores(prepared):
    return [ranking.scores for attack in prepared.attacks for ranking in attack.rankings()]


@pytest.mark.parametrize(
    ("protocol", "who", "share_less"),
    slow_except_first(
        [
            (GOSSIP, {"who": "single"}, False),
            (GOSSIP, {"who": "coalition", "fraction": 0.2}, False),
            (GOSSIP, {"who": "coalition", "fraction": 0.2}, True),
            (PERSONAL, {"who": "single"}, True),
            (FEDAVG, {"who": "coordinator"}, True),
            (FEDAVG, {"who": "coordinator", "momentum": 0}, False),
        ]
    ),
    ids=[
        "single",
        "coalition",
        "coalition-hidden",
        "pers-gossip-hidden",
        "coordinator-hidden",
        "coordinator-latest",
    ],
)
@pytest.mark.full
def test_runs_of_all_executors_find_the_same(protocol, who, share_less):
    policies = [{"name": "share-less", "nodes": {"fraction": 0.5}, "tau": 0.5}] if share_less else []
    plain, *others = (
        scores(observed(protocol, who, executor=e, policies=policies))
        for e in ("reference", "batched", "fused")
    )
    assert len(plain) == len(RULES)
    assert np.isfinite(plain[0]).sum() > 40
    for one, *alike in zip(plain, *others, strict=True):
        for other in alike:
            np.testing.assert_allclose(other, one, rtol=5e-3, atol=5e-3)


@pytest.mark.slow
def test_the_meter_counts_what_observers_see():
    prepared = observed(GOSSIP, {"who": "single"}, executor="reference", upto=0)
    set_up = prepared.meters[0].seconds
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    assert prepared.meters[0].seconds > set_up
