"""Sampled hr, ndcg and mrr of runs against a ranking in plain numpy, written from docs/measures.md.

Each test item is ranked among 99 items with which its user has not interacted, drawn once from the seed, or all of
them if they are fewer. Ties count against the test item. Values are averaged over a user's test items, then over users.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import gossiprec
from gossiprec.base.rng import generator
from gossiprec.emulation.scoring import metric_inputs, utility
from gossiprec.measures import hit, mrr, ndcg
from gossiprec.models import MODELS
from gossiprec.models.mf import MF
from gossiprec.testing import temporarily_registered
from tests.audit.planted import plant
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

N_USERS, SEED, CUTOFFS = 12, 5, (1, 5, 20, 60)
METRICS = [f"{name}@{k}" for name in ("hr", "ndcg", "mrr") for k in CUTOFFS]


class Coarse(MF):
    """Matrix factorisation whose scores are rounded to halves, so that many are equal."""

    def score(self, blocks, query):
        """Return rounded scores."""
        return (2 * super().score(blocks, query)).round() / 2


CASES = {
    "99 of 140 items": ("mf", 140, {"name": "random", "test": 0.4, "validation": 0.2}),
    "all of 60 items": ("mf", 60, {"name": "random", "test": 0.4, "validation": 0.2}),
    "ties": ("coarse", 140, {"name": "leave_last_k", "test": 3, "validation": 2}),
}


def played(case, folder):
    """Return a run of three reports, the models at each, its split, and the number of items."""
    model, n_items, split = CASES[case]
    data = {"name": "synthetic", "users": N_USERS, "items": n_items, "interactions": 200, "communities": 3}
    scenario = tiny(
        dataset={**data, "split": split}, model={"name": model, "dim": 4, "init_std": 1.0},
        protocol={"name": "fedavg", "rounds": 3}, training={"learning_rate": 0.05, "batch_size": "full"},
        observers=[], evaluate={"every": 1, "metrics": METRICS, "by_user": "all"}, executor={"name": "reference"},
    )  # fmt: skip
    with temporarily_registered(MODELS, {"coarse": Coarse}), gossiprec.prepare(scenario, out=folder) as live:
        models = [[live.model(node) for node in range(N_USERS)] for _ in live]
        return live.finish(), models, live.prepared.components.split, n_items


def lists_of(split, n_items):
    """Return each user's test items, each followed by the items that it is ranked among."""
    found = []
    for user in range(N_USERS):
        tests = split.test[user].tolist()
        taken = {*tests, *split.train[user].tolist(), *split.validation[user].tolist()}
        others = [item for item in range(n_items) if item not in taken]
        keys = generator(SEED, "candidates", user).random((len(tests), len(others)))
        drawn = [[others[place] for place in np.argsort(row)[:99]] for row in keys]
        found.append(list(zip(tests, drawn, strict=True)))
    return found


def of_rank(rank, k):
    """Return hr, ndcg and mrr of a test item at a rank, from 1."""
    return (1.0, 1 / math.log2(rank + 1), 1 / rank) if rank <= k else (0.0, 0.0, 0.0)


def values_of(models, lists, coarse):
    """Return the mean of each metric for each user, shape (n_users, n_metrics)."""
    found = []
    for model, own in zip(models, lists, strict=True):
        scores = model["items"] @ model["users"].ravel()
        scores = np.round(2 * scores) / 2 if coarse else scores
        ranks = [1 + sum(scores[other] >= scores[item] for other in others) for item, others in own]
        by_item = [[of_rank(rank, k) for k in CUTOFFS] for rank in ranks]
        found.append(np.transpose(np.mean(by_item, axis=0)).ravel() if own else np.full(len(METRICS), np.nan))
    return np.array(found)


def agree(case, folder):
    """Return whether all values of users and all means are those of the ranking by hand."""
    run, models, split, n_items = played(case, folder)
    lists, table = lists_of(split, n_items), run.by_user
    times = np.unique(table["time"])
    assert len(times) == len(models) == 3
    for time, at in zip(times, models, strict=True):
        due = values_of(at, lists, case == "ties")
        for place, metric in enumerate(METRICS):
            some = (table["time"] == time) & (table["metric"] == metric)
            mean = run.metrics["value"][(run.metrics["time"] == time) & (run.metrics["metric"] == metric)]
            known = np.flatnonzero(~np.isnan(due[:, place]))
            same = table["user"][some].tolist() == known.tolist()
            if not same or not np.allclose(table["value"][some], due[known, place], atol=1e-12):
                return False
            if not np.isclose(mean.item(), due[known, place].mean(), atol=1e-12):
                return False
    return True


@pytest.mark.parametrize("case", slow_except_first(CASES))
def test_every_value_is_that_of_a_ranking_by_hand(case, tmp_path):
    assert agree(case, tmp_path / "run")


FAULTS = {
    "98 items": ("99 of 140 items", lambda patch: patch.setattr(metric_inputs, "SAMPLED", 98)),
    "validation items among the candidates": (
        "99 of 140 items", lambda patch: plant(
            patch, utility, "draw_candidates", "split.validation[user], tests", "tests")),
    "other candidates": ("99 of 140 items", lambda patch: plant(
        patch, utility, "draw_candidates", "seed, ", "seed + 1, ")),
    "ties count for the test item": ("ties", lambda patch: plant(
        patch, utility, "candidate_ranks", "negatives < positive", "negatives <= positive")),
    "a hit below the first K": ("99 of 140 items", lambda patch: plant(
        patch, hit.Hit, "compute_values", "seen.hits(k)", "seen.hits(k + 1)")),
    "gains of the next rank": ("99 of 140 items", lambda patch: plant(
        patch, ndcg, "discounted_gains", "+ 2.0", "+ 3.0")),
    "reciprocal ranks from 0": ("99 of 140 items", lambda patch: plant(
        patch, mrr.MRR, "compute_values", "1.0 + first", "np.maximum(first, 1)")),
    "means over all test items": ("99 of 140 items", lambda patch: plant(
        patch, utility, "user_means", "np.divide(sums, counts,", "np.divide(sums, counts.mean(),")),
}  # fmt: skip


@pytest.mark.parametrize("fault", slow_except_first(FAULTS))
@pytest.mark.cases(5)
def test_a_planted_fault_is_noticed(fault, monkeypatch, tmp_path):
    case, plant_it = FAULTS[fault]
    plant_it(monkeypatch)
    assert not agree(case, tmp_path / "run")
