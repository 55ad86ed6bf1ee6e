"""Whole runs of federated recommenders: what is sent, what is resumed, what is refused."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from tests.emulation.test_resume import check
from tests.emulation.tiny_runs import COORDINATOR, tiny

FEW = {"synthetic_users": 3, "synthetic_items": 5}
REGULARISED = {"name": "rcl4fedrec", **FEW, "hot_items": 4, "sub_items": 10}
SLICES = {"name": "fedavg", "rounds": 5, "slice": 5, "client_model": "none", "merge": "touched-mean"}


def recommended(**sections):
    return tiny(
        **{
            "model": {"name": "ncf", "dim": 6, "hidden": [8, 4]},
            "training": {"batch_size": "full", "local_epochs": 2},
            "protocol": SLICES,
            "recommender": REGULARISED,
            "executor": {"name": "batched"},
            "observers": [],
            **sections,
        }
    )


@pytest.mark.slow
@pytest.mark.full
def test_synthetic_users_travel_and_are_counted(tmp_path):
    plain, with_extras = (
        simulate(recommended(recommender=choice), out=tmp_path / str(place))
        for place, choice in enumerate((None, REGULARISED))
    )
    sizes = [
        run.events("message")["size_bytes"][run.events("message")["sender"] == 12]
        for run in (plain, with_extras)
    ]
    assert set(sizes[1] - sizes[0]) == {4 * 3 * 6}


@pytest.mark.slow
@pytest.mark.parametrize("late", [{}, {"network": {"latency": {"law": "exponential", "mean": 0.7}}}])
@pytest.mark.full
def test_a_run_goes_on_where_it_was(late, tmp_path):
    check(tmp_path, recommended(evaluate={"every": 1, "metrics": ["hr@5"]}, **late))


@pytest.mark.slow
@pytest.mark.full
def test_a_server_of_the_protocol_comes_first(tmp_path):
    protocol = {**SLICES, "server": {"name": "adaptive"}}
    runs = [
        simulate(recommended(protocol={**one, "rounds": 2}, recommender=choice), out=tmp_path / str(place))
        for place, (one, choice) in enumerate(
            [(protocol, REGULARISED), (protocol, None), (SLICES, REGULARISED)]
        )
    ]
    assert len({run.path.joinpath("metrics.csv").read_bytes() for run in runs}) == 3
    check(
        tmp_path / "again",
        recommended(protocol=protocol, evaluate={"every": 1, "metrics": ["hr@5"]}),
    )


@pytest.mark.slow
@pytest.mark.full
def test_the_coordinator_is_observed_as_ever(tmp_path):
    run = simulate(recommended(observers=[COORDINATOR]), out=tmp_path / "run")
    assert max(run.attacks["aac"]) > 0


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"protocol": {"name": "fedavg", "rounds": 2}}, "recommender: rcl4fedrec requires a coordinator and clients"),
        ({"protocol": {"name": "rand-gossip", "wakes": 2}, "observers": []}, "rcl4fedrec requires a coordinator"),
        ({"training": {"batch_size": 8}}, "set training.batch_size to full"),
        ({"model": {"name": "mf", "loss": "bpr"}}, "which mf is not; choose gmf"),
        ({"recommender": {**REGULARISED, "synthetic_items": 99}}, "synthetic_items is 99, but there are"),
        ({"recommender": {**REGULARISED, "hot_items": 40}}, "hot_items 40 and sub_items 10 are more than the 40 items"),
        ({"recommender": {"name": "cl4fedrek"}}, "recommender.name: unknown recommender 'cl4fedrek'"),
        ({"recommender": {"name": "simgcl", "tau": 1}}, "recommender.tau: unknown key"),
        ({"recommender": "simgcl"}, "recommender: found 'simgcl', must be a mapping such as"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(sections, message, tmp_path):
    with pytest.raises(ScenarioError, match=message):
        simulate(recommended(**sections), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
