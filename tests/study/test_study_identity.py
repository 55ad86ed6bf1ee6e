"""By what a finished run is recognised."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Literal

import pytest
from small_studies import BASE, COALITION, SINGLE

from gossiprec.base.options import Options
from gossiprec.scenario import load_scenario
from gossiprec.study.run_hash import non_default_options, result_identity, run_hash

PROGRAM = "import json,sys; from gossiprec.study.run_hash import run_hash; from gossiprec.scenario import load_scenario; print(run_hash(load_scenario(json.loads(sys.argv[1]))))"  # noqa: E501


def hash_with(*overrides, **keys):
    return run_hash(load_scenario({**BASE, **keys}, overrides))


@pytest.mark.parametrize(
    "override", ["name=other", "plots=true", "executor.threads=7", "executor.wave_size=3", "protocol.fanout=3",
                 "network.loss=0", "training.local_epochs=1", "evaluate.metrics=[hr@5]"],
)  # fmt: skip
def test_what_changes_no_number_leaves_the_hash(override):
    assert hash_with(override) == hash_with()


@pytest.mark.parametrize(
    "override", ["seed=6", "protocol.fanout=2", "executor.name=fused", "executor.storage=float16", "network.loss=0.1",
                 "dataset.split.test=3", "dataset.limit_users=10", "model.dim=8", "observers.0.momentum=0.8",
                 "observers=[]", "evaluate.every=2", "network.latency={law: exponential, mean: 0.1}"],
)  # fmt: skip
def test_what_can_change_a_number_changes_the_hash(override):
    assert hash_with(override) != hash_with()


def test_the_hashes_of_different_overrides_differ_from_one_another():
    told = ["seed=6", "protocol.fanout=2", "model.dim=8", "network.loss=0.1", "network.loss=0.2"]
    assert len({hash_with(override) for override in told}) == len(told)


def test_the_order_of_observers_leaves_the_hash():
    assert hash_with(observers=[SINGLE, COALITION]) == hash_with(observers=[COALITION, SINGLE])


@pytest.mark.slow
@pytest.mark.full
def test_the_hash_is_the_same_in_a_process_with_other_string_hashes():
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(BASE)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert found == {hash_with()}


def test_the_hash_of_a_run_outlives_new_keys_with_defaults():
    # As written on the day the hash was defined: whoever changes it makes all finished studies run again.
    assert result_identity(load_scenario(BASE)) == {
        "seed": 5,
        "dataset": {
            "name": "synthetic",
            "split": {"name": "leave_last_k", "test": 2, "validation": 1},
            "users": 12,
            "items": 40,
            "interactions": 150,
        },
        "model": {"name": "gmf", "dim": 4},
        "protocol": {"name": "rand-gossip", "wakes": 2},
        "observers": [
            {"name": "cda", "who": "single", "community_size": 3, "momentum": 0.9, "reference_items": 9}
        ],
        "evaluate": {"every": 1, "metrics": ["hr@5"]},
        "executor": {"name": "reference"},
    }


class Left(Options):
    kind: Literal["left"] = "left"
    value: float = 0.0


class Right(Options):
    kind: Literal["right"] = "right"
    value: float = 0.0


class Holder(Options):
    one: Left | Right = Left()
    many: tuple[Left | Right, ...] = ()


def test_two_kinds_with_equal_options_are_told_apart():
    assert non_default_options(Holder(one=Right())) == {"one": {"kind": "right"}}
    assert non_default_options(Holder(many=(Left(), Right(value=1.0)))) == {
        "many": [{"kind": "left"}, {"kind": "right", "value": 1.0}]
    }
    assert non_default_options(Holder()) == {}
