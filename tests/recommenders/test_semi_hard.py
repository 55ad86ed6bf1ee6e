"""Semi-hard negatives: the pool of both sides in plain numpy, and what is drawn from it."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec import unlearn
from gossiprec.emulation import simulate
from gossiprec.federated import RECOMMENDERS, ClientContext
from gossiprec.federated.semi_hard import SemiHardOptions, semi_hard_pool
from gossiprec.models import MODELS
from tests.emulation.tiny_runs import tiny

GMF = MODELS["gmf"](MODELS["gmf"].Options(dim=4))
POSITIVES = np.array([1, 5], np.int32)


def client(n_items=20):
    layout = GMF.layout(n_items, 1)
    draw = np.random.default_rng(3)
    version = draw.normal(size=layout.shared.stop - layout.users.stop).astype(np.float32)
    own = draw.normal(size=4).astype(np.float32)
    return ClientContext(5, 0, 0, layout, POSITIVES, POSITIVES, own, version, {})


def by_hand(one, number):
    rows = one.version[: len(one.version) - one.layout.n_shared].reshape(-1, 4).astype(float)
    found = set()
    for centre in (one.own, (rows[1] + rows[5]) / 2):
        distance = {item: np.linalg.norm(row - centre) for item, row in enumerate(rows) if item not in (1, 5)}
        found |= set(sorted(distance, key=distance.get)[:number])
    return rows, sorted(found)


@pytest.mark.parametrize("number", [1, 4, 30])
def test_the_pool_is_near_the_user_or_near_the_mean_of_its_items(number):
    one = client()
    rows, expected = by_hand(one, number)
    assert semi_hard_pool(rows.astype(np.float32), one.own, POSITIVES, number).tolist() == expected


@pytest.mark.parametrize("negatives", [1, 8])
def test_negatives_come_from_the_pool_and_positives_stay(negatives):
    one = client()
    _, pool = by_hand(one, 2)
    labels = np.tile(np.eye(1, 1 + negatives, dtype=np.float32)[0], 2)
    drawn = {"items": np.where(labels > 0, np.repeat(POSITIVES, 1 + negatives), 19), "labels": labels}
    recommender = RECOMMENDERS["semi-hard"](SemiHardOptions(pool=0.1), GMF, negatives=1, learning_rate=0.1)
    found = recommender.transform_samples(drawn, one, np.random.default_rng(1))
    assert found["items"][labels > 0].tolist() == [1, 5]
    chosen = found["items"][labels == 0].tolist()
    assert set(chosen) <= set(pool)
    assert negatives > 1 or len(set(chosen)) == 2, "no repetition if the pool is large enough"


@pytest.mark.slow
def test_fru_revises_runs_with_semi_hard_negatives(tmp_path):
    protocol = {"name": "fedavg", "rounds": 3, "client_model": "none"}
    scenario = tiny(observers=[], protocol=protocol, recommender={"name": "semi-hard"})
    found = unlearn(simulate(scenario, out=tmp_path / "run").path, [3], methods=["fru"], k=5).table()
    assert found["fru"]["remaining"] > 0
    assert found["fru"]["stored_bytes"] > 0
