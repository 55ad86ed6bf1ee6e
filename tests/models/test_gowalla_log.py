"""LightGCN on Gowalla next to the log of its authors' code for torch; about four minutes of processor time."""

from __future__ import annotations

from pathlib import Path

import pytest

from gossiprec.emulation import simulate
from tests.data.small_data import real

SCENARIO = Path(__file__).parents[2] / "scenarios/papers/lightgcn/gowalla.yaml"
LOG = {"recall@20": 0.1071, "full_ndcg@20": 0.0894}
"""Its "epoch 5", the sixth pass."""
TIES = 0.0034
"""NDCG that it loses by ties of sigmoids, which our ranking does not have; docs/benchmarks.md."""


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.full
def test_lightgcn_has_the_recall_of_its_log_on_gowalla_and_its_ndcg_before_ties(tmp_path):
    folder, train = real("gowalla-lightgcn"), tmp_path / "train.txt.gz"
    train.write_bytes(b"".join((folder / f"{part}.txt.gz").read_bytes() for part in ("train", "valid")))
    overrides = [
        *(f"dataset.train={train}", f"dataset.test={folder / 'test.txt.gz'}", "plots=false"),
        *("model.init_std=null", "protocol.epochs=6", "evaluate.every=6", "evaluate.beside=[]"),
    ]
    found = simulate(SCENARIO, overrides=overrides, out=tmp_path / "run").summary["utility"]
    assert found["recall@20"] == pytest.approx(LOG["recall@20"], rel=0.01)
    assert found["full_ndcg@20"] - TIES == pytest.approx(LOG["full_ndcg@20"], rel=0.01)
