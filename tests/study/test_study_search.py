"""Drawn and written combinations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest
from small_studies import planned

from gossiprec.study.plan import value_label

LR = {"key": "training.learning_rate", "low": 0.001, "high": 0.1, "scale": "log"}
WAKES = {"key": "protocol.wakes", "low": 2, "high": 9, "integer": True}
FANOUT = {"key": "protocol.fanout", "values": [1, 3]}


def drawn(folder, method, samples, seed=0):
    search = {"method": method, "samples": samples, "seed": seed}
    plan = planned(folder, axes={"lr": LR, "wakes": WAKES, "fanout": FANOUT}, search=search, seeds=1)
    return [v.labels for v in plan.variants]


@pytest.mark.parametrize("method", ["random", "latin-hypercube"])
def test_draws_stay_in_their_ranges_and_depend_on_the_seed_alone(tmp_path, method):
    points = drawn(tmp_path, method, 40)
    assert points == drawn(tmp_path, method, 40)
    assert points != drawn(tmp_path, method, 40, seed=1)
    assert all(0.001 <= p["lr"] <= 0.1 and float(f"{p['lr']:.6g}") == p["lr"] for p in points)
    assert {p["wakes"] for p in points} <= set(range(2, 10))
    assert all(isinstance(p["wakes"], int) for p in points)
    assert {p["fanout"] for p in points} == {1, 3}


def test_random_draws_on_a_log_scale_are_log_uniform(tmp_path):
    # 200 draws, fixed seed: KS rejects at p < 0.001 by chance once in a thousand seeds
    logs = [math.log(p["lr"] / 0.001) / math.log(100) for p in drawn(tmp_path, "random", 200)]
    assert kstest(logs, "uniform").pvalue > 0.001


def test_a_latin_hypercube_has_one_point_in_each_stratum_of_each_axis(tmp_path):
    points = drawn(tmp_path, "latin-hypercube", 16)
    u = np.array([math.log(p["lr"] / 0.001) / math.log(100) for p in points])
    # values are rounded to six digits, far less than a stratum of 1/16
    assert sorted(np.floor(16 * u).astype(int)) == list(range(16))
    assert sorted(p["fanout"] for p in points) == [1] * 8 + [3] * 8
    assert sorted(p["wakes"] for p in points) == sorted(2 * list(range(2, 10)))


def test_written_combinations_are_run_as_written(tmp_path):
    rows = [{"fanout": 3, "lr": 0.02}, {"fanout": 1, "lr": 0.001}]
    plan = planned(
        tmp_path, axes={"fanout": FANOUT, "lr": LR}, search={"method": "list", "list": rows}, seeds=1
    )
    assert [v.labels for v in plan.variants] == rows
    assert plan.variants[0].scenario.training.learning_rate == 0.02


def test_labels_are_plain_or_yaml_on_one_line():
    assert [value_label(v) for v in (1, 0.5, "x", True, None)] == [1, 0.5, "x", True, None]
    assert value_label([0, 0.9]) == "[0, 0.9]"
    assert value_label({"law": "constant"}) == "{law: constant}"
