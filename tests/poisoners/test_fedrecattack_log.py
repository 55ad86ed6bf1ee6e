"""FedRecAttack on MovieLens-100k next to the log of its authors' public code (rdz98/FedRecAttack)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gossiprec.emulation import simulate
from tests.data.small_data import real

SCENARIO = Path(__file__).parents[2] / "scenarios/papers/fedrecattack/fedrecattack_ml100k.yaml"
LOG = {"hr@10": (0.073, 0.05), "er@5": (0.387, 0.10)}
"""After iteration 1: the value of the log, and half of the band of docs/notes_tables.md, which has all five."""


@pytest.mark.slow
@pytest.mark.realdata
def test_the_first_iteration_is_within_the_band_of_the_log(tmp_path):
    overrides = [f"dataset.path={real('ml-100k')}", "plots=false", "protocol.rounds=1", "evaluate.beside=[]"]
    metrics = simulate(SCENARIO, overrides=overrides, out=tmp_path / "run").metrics
    found = dict(zip(metrics["metric"].tolist(), metrics["value"].tolist(), strict=True))
    for name, (value, band) in LOG.items():
        assert found[name] == pytest.approx(value, abs=band), name
