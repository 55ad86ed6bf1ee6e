"""Runs of BERT4Rec: its gaps are drawn anew in each update, under a coordinator, at clients and in gossip."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.emulation.scoring.utility import UtilityEvaluator
from gossiprec.testing.tiny_runs import current_models
from tests.emulation.test_sequence_runs import central, federated, run
from tests.emulation.tiny_runs import carried_out
from tests.slow import slow_except_first

MODEL = {"name": "bert4rec", "dim": 8, "inner": 12, "max_length": 6}
SAMPLED = {**MODEL, "loss": "sampled"}


@pytest.mark.slow
def test_clients_train_alike_in_both_executors():
    runs = (federated(model=SAMPLED, executor={"name": name}) for name in ("reference", "batched"))
    one, other = (current_models(carried_out(each)) for each in runs)
    begin = current_models(carried_out(federated(model=SAMPLED), upto=0))
    assert np.linalg.norm(one - other) < 1e-4 * np.linalg.norm(one - begin)


@pytest.mark.parametrize("make", slow_except_first([federated, central, run]))
@pytest.mark.cases(2)
def test_bytes_do_not_depend_on_threads(make):
    model = SAMPLED if make is federated else MODEL
    one, other = (
        current_models(carried_out(make(model=model, executor={"name": "batched", "threads": threads})))
        for threads in (1, 2)
    )
    assert one.tobytes() == other.tobytes()


@pytest.mark.slow
@pytest.mark.full
def test_a_coordinator_learns_which_item_follows_which(tmp_path):
    cycle = [[(user + place) % 12 for place in range(6)] for user in range(24)]
    (tmp_path / "lists.txt").write_text(
        "".join(f"u{n} " + " ".join(map(str, row)) + "\n" for n, row in enumerate(cycle))
    )
    data = {
        "name": "file", "form": "lists", "path": str(tmp_path / "lists.txt"),
        "split": {"name": "leave_last_k", "test": 1, "validation": 0},
    }  # fmt: skip
    training = {"optimizer": "adam", "learning_rate": 0.01, "batch_size": 8, "negatives": 1}
    protocol = {"name": "central", "epochs": 200}
    model = {**MODEL, "dim": 16, "inner": 32, "dropout": 0, "output_layer": False}
    prepared = carried_out(run(dataset=data, model=model, training=training, protocol=protocol))
    utility = UtilityEvaluator(prepared.components.split, ["recall@1"], prepared.executor, 3)
    found = utility.measure(prepared.planner.current_rows)["recall@1"]
    assert found > 0.7  # guessing among the seven others: 0.14; processors differ in how far it comes
