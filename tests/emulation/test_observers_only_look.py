"""Honest-but-curious observers: any number of them, and the run is the same; each finds what it finds alone."""

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.cda import CDA
from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from gossiprec.scenario import load_scenario
from gossiprec.testing import temporarily_registered
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, carried_out, final_models, tiny
from tests.slow import slow_except_first

COALITION = {"name": "cda", "who": "coalition", "community_size": 3, "reference_items": 9}
MANY = [
    {**SINGLE, "momentum": [0.9, 0], "relevance": ["ndcg", "standardized", "mean_score"]},
    {**SINGLE, "nodes": [2, 5], "community_size": [2, 4]},
    {**COALITION, "fraction": [0.2, 0.5], "momentum": [0.5, 0], "relevance": ["mean_score", "ndcg"]},
    {**COALITION, "members": [0, 3, 8], "momentum": 0.99},
]
AT_THE_CENTRE = [
    {**COORDINATOR, "momentum": [0.9, 0], "relevance": ["ndcg", "standardized", "mean_score"]},
    {"name": "entropy-mia", "who": "coordinator", "community_size": [2, 4], "threshold": [0.2, 0.8]},
]
KEY = ("observer", "relevance", "momentum", "community_size", "time")
NUMBERS = ("aac", "best10_min", "best10_mean", "upper_bound", "random_bound")
EXECUTORS = ["reference", "batched", "fused"]
"""Under which observers take their plain, their stacked and their compiled form."""
FEDAVG = {"name": "fedavg", "rounds": 4}


def attack_rows(run):
    """Return the numbers of each row of attacks.csv by what the row is about."""
    rows = zip(*(run.attacks[name].tolist() for name in KEY + NUMBERS), strict=True)
    found = {row[: len(KEY)]: row[len(KEY) :] for row in rows}
    assert len(found) == len(run.attacks["aac"])
    return found


@pytest.mark.parametrize("executor", slow_except_first(EXECUTORS))
@pytest.mark.parametrize("protocol", slow_except_first(["rand-gossip", "fedavg"]))
@pytest.mark.cases(1)
def test_a_run_is_the_same_with_and_without_observers(protocol, executor, tmp_path):
    sections = {"executor": {"name": executor}, **({"protocol": FEDAVG} if protocol == "fedavg" else {})}
    watchers = AT_THE_CENTRE if protocol == "fedavg" else MANY
    watched, alone = (
        simulate(tiny(observers=observers, **sections), out=tmp_path / str(len(observers)))
        for observers in (watchers, [])
    )

    assert watched.manifest["log_digest"] == alone.manifest["log_digest"] is not None
    files = [(run.path / "metrics.csv").read_text().splitlines() for run in (watched, alone)]
    assert [line for line in files[0] if "mia_" not in line] == files[1]
    assert len(watched.attacks["aac"]) > 0 == len(alone.attacks["aac"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user_table", "executor"),
    [("own", "reference"), ("averaged", "batched"), ("own", "fused"), ("averaged", "fused")],
)
@pytest.mark.full
def test_an_observer_finds_the_same_alone_as_among_others(user_table, executor, tmp_path):
    protocol = {**tiny()["protocol"], "user_table": user_table}
    sections = {"executor": {"name": executor}, "protocol": protocol}
    together = attack_rows(simulate(tiny(observers=MANY, **sections), out=tmp_path / "many"))
    apart = {}
    for number, observer in enumerate(MANY):
        apart |= attack_rows(simulate(tiny(observers=[observer], **sections), out=tmp_path / str(number)))

    assert apart == together


@pytest.mark.parametrize("user_table", slow_except_first(["own", "averaged"]))
@pytest.mark.full
def test_all_forms_of_observers_rank_alike(user_table):
    protocol = {**tiny()["protocol"], "user_table": user_table}
    plain, *others = (
        [
            ranking
            for attack in carried_out(
                tiny(observers=MANY, protocol=protocol, executor={"name": name}, training={"eps": 1e-3})
            ).attacks
            for ranking in attack.rankings()
        ]
        for name in EXECUTORS
    )
    for one, *alike in zip(plain, *others, strict=True):
        assert (~np.isnan(one.scores)).any()
        for other in alike:
            assert (one.observer, one.relevance, one.momentum) == (
                other.observer,
                other.relevance,
                other.momentum,
            )
            np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.full
def test_runs_of_all_executors_measure_alike(tmp_path):
    first, *others = [
        simulate(tiny(observers=MANY, executor={"name": name}, training={"eps": 1e-3}), out=tmp_path / name)
        for name in EXECUTORS
    ]
    for run in others:
        np.testing.assert_allclose(first.metrics["value"], run.metrics["value"], atol=1e-4)
        for name in NUMBERS:
            np.testing.assert_allclose(first.attacks[name], run.attacks[name], atol=1e-4)


@pytest.mark.parametrize("user_table", ["own", "averaged"])
@pytest.mark.cases(1)
@pytest.mark.slow
def test_runs_of_all_executors_end_with_the_same_models(user_table):
    protocol = {**tiny()["protocol"], "user_table": user_table}
    first, *others = [
        final_models(carried_out(tiny(protocol=protocol, executor={"name": name}, training={"eps": 1e-3})))
        for name in EXECUTORS
    ]
    for end in others:
        assert np.linalg.norm(first - end) < 1e-5 * np.linalg.norm(first)


@pytest.mark.slow
@pytest.mark.full
def test_a_run_does_not_depend_on_threads_or_wave_size(tmp_path):
    contents = set()
    for threads, wave_size in ((1, 1), (1, "unlimited"), (2, "unlimited"), (3, 1)):
        executor = {"name": "fused", "threads": threads, "wave_size": wave_size}
        path = tmp_path / f"{threads}-{wave_size}"
        run = simulate(tiny(observers=MANY, executor=executor), out=path)
        tables = b"".join((path / name).read_bytes() for name in ("metrics.csv", "attacks.csv"))
        contents.add((tables, run.manifest["log_digest"]))

    assert len(contents) == 1


@pytest.mark.parametrize("observer", [SINGLE, {**COALITION, "fraction": 0.5}], ids=["single", "coalition"])
def test_clients_of_a_coordinator_meet_nobody_and_are_no_observers(observer):
    """They would find nothing, and a line of zeros would look like a result."""
    place = f"scenario: observers.1.who: found '{observer['who']}', but with a coordinator nodes receive no models"
    with pytest.raises(ScenarioError, match=place):
        load_scenario(tiny(protocol=FEDAVG, observers=[COORDINATOR, observer]))


def test_what_is_foretold_of_a_star_is_what_its_coordinator_hears(tmp_path):
    run = simulate(tiny(protocol={**FEDAVG, "participation": 0.5}), out=tmp_path / "run")
    names = run.metrics["metric"]
    assert "predicted_fraction_met" not in names
    heard = run.metrics["value"][names == "predicted_fraction_heard"]
    assert heard == pytest.approx(1 - 0.5 ** np.array([2, 4]))
    assert run.summary["nodes"] == run.summary["coordinator"] == 12


def test_the_coordinator_meets_everybody_in_its_first_round(tmp_path):
    coordinator = {**SINGLE, "who": "coordinator"}
    run = simulate(tiny(protocol=FEDAVG, observers=[coordinator]), out=tmp_path / "run")

    assert set(run.attacks["observer"].tolist()) == {"coordinator"}
    assert set(run.attacks["upper_bound"].tolist()) == {1.0}


def test_a_coordinator_observes_only_where_there_is_one(tmp_path):
    with pytest.raises(ScenarioError, match="who: coordinator requires a protocol with a coordinator"):
        simulate(tiny(observers=[{**SINGLE, "who": "coordinator"}]), out=tmp_path / "run")


class Noting(CDA):
    """Notes the weights of the merges that it sees."""

    def observe(self, seen):
        super().observe(seen)
        NOTED.extend(seen.keeps.tolist())


NOTED: list[float] = []


@pytest.mark.parametrize("executor", slow_except_first(EXECUTORS))
@pytest.mark.full
def test_who_looks_with_its_own_model_follows_what_it_merges_by_performance(executor, tmp_path):
    """A merge's weight is found when it is made, after observers have looked: they are told it before."""
    sections = {
        "protocol": {"name": "pers-gossip", "view": {"size": 3}, "wakes": 6},
        "dataset": {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}},
        "policies": [{"name": "share-less", "nodes": "all"}],
        "executor": {"name": executor},
    }
    NOTED.clear()
    with temporarily_registered(ATTACKS, {"noting": Noting}):
        observers = [{**SINGLE, "name": "noting", "fictive_user": "own_embedding"}]
        watched = simulate(tiny(observers=observers, **sections), out=tmp_path / "watched")
    alone = simulate(tiny(observers=[], **sections), out=tmp_path / "alone")

    assert 0.0 <= min(NOTED) < max(NOTED) <= 1.0
    assert watched.manifest["log_digest"] == alone.manifest["log_digest"]
    assert watched.metrics["value"].tolist() == alone.metrics["value"].tolist()
