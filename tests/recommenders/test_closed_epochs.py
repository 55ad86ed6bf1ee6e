"""Epochs that end with a wake of the coordinator: what is reported is what the papers' order gives."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from gossiprec.emulation import prepare, simulate
from gossiprec.federated.cl4fedrec import PopularityRegulariser
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny

FEW = {"synthetic_users": 3, "synthetic_items": 5}
HOT = {**FEW, "name": "rcl4fedrec", "hot_items": 4, "sub_items": 10, "regulariser_steps": 2}
PDC = {"name": "pdc-frs", "similarity": {"name": "co-occurrence", "public_users": 0.5}, "augmented": 5}


def sliced(recommender, *, close, rounds=2, **sections):
    protocol = {
        "name": "fedavg",
        "rounds": rounds,
        "slice": 5,
        "client_model": "none",
        "merge": "touched-mean",
    }
    return tiny(
        **{
            "model": {"name": "ncf", "dim": 4, "hidden": [6]},
            "training": {"batch_size": "full"},
            "protocol": {**protocol, "close_epochs": close},
            "observers": [],
            "recommender": recommender,
            "evaluate": {"every": 1, "metrics": ["recall@5"]},
            **sections,
        }
    )


def ended(plain):
    """Return a run at its end, its last version, and users' rows."""
    run = prepare(load_scenario(plain))
    for _ in run.schedule.play(run.tape_runner().run_segment):
        pass
    store = run.executor.store
    return run, store.load(run.planner.current_rows[-1:])[0, store.layout.merged], store.own.copy()


@pytest.mark.parametrize("recommender", [None, HOT, PDC], ids=lambda one: one and one["name"])
@pytest.mark.cases(1)
def test_clients_are_sent_the_same_whether_epochs_are_closed_or_not(recommender):
    _, late, rows = ended(sliced(recommender, close=False, rounds=3))
    _, closed, same_rows = ended(sliced(recommender, close=True, rounds=3))
    assert same_rows.tobytes() == rows.tobytes()
    assert (closed != late).any()  # the answers of the last slice are in it


def test_the_regulariser_steps_before_the_report_and_after_the_last_epoch():
    _, merged, _ = ended(sliced({**FEW, "name": "cl4fedrec"}, close=True, rounds=1))
    run, found, _ = ended(sliced(HOT, close=True, rounds=1))
    regulariser = run.components.coordination.recommender.make_regulariser(
        run.components.coordination.hook._known
    )
    assert isinstance(regulariser, PopularityRegulariser)
    np.testing.assert_array_equal(found, regulariser.regularise(merged, 1))
    assert (found != merged).any()


def test_the_items_loss_of_pdc_frs_is_taken_before_the_report():
    without = {**PDC, "item_weight": 0.0}
    _, merged, _ = ended(sliced(without, close=True, rounds=1))
    _, found, _ = ended(sliced({**PDC, "item_weight": 0.5}, close=True, rounds=1))
    _, late, _ = ended(sliced({**PDC, "item_weight": 0.5}, close=False, rounds=1))
    _, late_without, _ = ended(sliced(without, close=False, rounds=1))
    assert (found != merged).any()
    np.testing.assert_array_equal(late, late_without)


@pytest.mark.slow
@pytest.mark.full
def test_reports_come_with_closing_wakes_and_runs_go_on_after_them(tmp_path):
    plain = sliced(HOT, close=True, rounds=3, checkpoint={"every": 1})
    run = simulate(plain, out=tmp_path / "run")
    with (run.path / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "recall@5"]
    assert [(int(row["round"]), float(row["time"])) for row in rows] == [(1, 4.0), (2, 8.0), (3, 12.0)]
