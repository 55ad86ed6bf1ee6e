"""Whole runs in which the coordinator computes: several versions, extras, and what it remembers."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.models import MODELS
from gossiprec.rules.servers import SERVERS, Downlink, Server
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.test_resume import CITY
from tests.emulation.tiny_runs import SINGLE, carried_out, final_models, tiny
from tests.slow import slow_except_first

LAYOUT = MODELS["gmf"](MODELS["gmf"].Options(dim=8)).layout(40)
SLOW = {"latency": {"law": "exponential", "mean": 0.4}, "loss": 0.1}
DAMPED = {"batch_size": 16, "eps": 1e-3}
OBSERVERS = [{**SINGLE, "who": "coordinator"}, {**SINGLE, "who": "coordinator", "momentum": 0}]
BUFFER = {"name": "buffered", "buffer": 3, "concurrency": 6, "staleness": {"law": "polynomial"}}


class Factions(Server):
    """Sends a version to odd clients that lies apart, by what it has seen so far; remembers how much came from whom."""

    Options = NoOptions
    n_versions = 2
    extra_bytes = 4 * 3 + 8

    def __init__(self, options):
        super().__init__(options)
        self.heard = None

    def round(self, published, aggregated, answers, round):
        if self.heard is None:
            self.heard = np.zeros(round.n_clients)
        self.heard += np.bincount(answers.clients, minlength=round.n_clients)
        for columns, received in answers.inbox.received():
            assert np.isfinite(received).all()
            assert received.shape == (len(answers.clients), len(aggregated[columns]))
        noise = round.generator("factions").normal(size=len(aggregated)) * 0.01
        apart = aggregated + (self.heard.sum() / 500 + noise).astype(np.float32)
        chosen = (self.heard + np.arange(round.n_clients)).astype(np.int64) % 2  # depends on what has come
        extras = {"a": np.full(3, round.number, np.float32), "b": np.array([self.heard.sum()])}
        return Downlink(np.stack([aggregated, apart]).astype(np.float32), chosen, extras)

    def state(self):
        return {"heard": self.heard}

    def restore(self, state):
        self.heard = state["heard"]


def failing(how):
    class Failing(Factions):
        def round(self, *given):
            return how(super().round(*given))

    return Failing


OF_EACH = "version_of must hold an integer from 0 to 1 for each of 12 clients"
BROKEN = {
    "narrow": (lambda d: Downlink(d.versions[:1], None, d.extras), r"shape \(1, 329\); expected \(2, 329\)"),
    "nan": (lambda d: Downlink(d.versions * np.nan, None, d.extras), "returned NaN or infinite values"),
    "third": (lambda d: Downlink(d.versions, np.full(12, 2), d.extras), OF_EACH),
    "few": (lambda d: Downlink(d.versions, np.zeros(3, int), d.extras), OF_EACH),
    "light": (
        lambda d: Downlink(d.versions, None, {}),
        "extras of 0 bytes, but its extra_bytes announced 20",
    ),
}


@pytest.fixture(autouse=True)
def registered():
    """Register servers of the test's own."""
    before = dict(SERVERS.members())
    SERVERS._members["factions"] = Factions
    for name, (how, _) in BROKEN.items():
        SERVERS._members[name] = failing(how)
    yield
    SERVERS._members.clear()
    SERVERS._members.update(before)


def star(server, **more):
    options = {
        key: more.pop(key) for key in ("merge", "aggregation", "participation", "round") if key in more
    }
    protocol = {"name": "fedavg", "rounds": 8, "server": server, **options}
    return tiny(**{"protocol": protocol, "training": DAMPED, "observers": OBSERVERS, **more})


RUNS = {
    "momentum": {"server": {"name": "momentum", "beta": 0.5}},
    "robust": {"server": "momentum", "merge": "median", "participation": 0.6},
    "factions": {"server": "factions"},
    "factions-slow": {"server": "factions", "network": SLOW, "round": {"deadline": 0.6, "give_up": 2.0}},
    "factions-buffered": {"server": "factions", "merge": "mean", "network": SLOW, "aggregation": BUFFER},
}


@pytest.mark.parametrize("run", slow_except_first(RUNS))
@pytest.mark.cases(1)
def test_executors_agree(run):
    one, *others = (
        final_models(carried_out(star(**RUNS[run], executor={"name": name})))
        for name in ("reference", "batched", "fused")
    )
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.cases(4)
def test_threads_and_waves_change_no_byte(run, tmp_path):
    runs = [
        outcome(
            simulate(star(**RUNS[run], executor={"name": "fused", **more}), out=tmp_path / str(number)).path
        )
        for number, more in enumerate([{"threads": 1}, {"threads": 2, "wave_size": 3}])
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("run", slow_except_first(RUNS))
def test_how_often_a_run_is_reported_changes_no_model(run):
    models = [
        final_models(carried_out(star(**RUNS[run], evaluate={"every": every, "metrics": ["hr@5"]})))
        for every in (1, 3)
    ]
    np.testing.assert_array_equal(*models)


@pytest.mark.parametrize("run", slow_except_first(RUNS))
@pytest.mark.cases(1)
def test_a_run_that_ended_early_is_resumed_to_the_same_bytes(run, tmp_path):
    often = star(**RUNS[run], evaluate={"every": 1, "metrics": ["hr@5"]})
    whole = simulate(often, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", often, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)


@pytest.mark.full
def test_half_floats_have_servers_too():
    dataset = {**CITY["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 0}}
    sections = {**CITY, "dataset": dataset, "observers": []}
    one, other = (
        final_models(carried_out(star("factions", **sections, executor={"name": name, "storage": "float16"})))
        for name in ("reference", "fused")
    )
    np.testing.assert_allclose(other, one, rtol=0.03, atol=0.03)


@pytest.mark.slow
def test_momentum_without_momentum_is_fedavg():
    plain = final_models(carried_out(star(None)))
    served = final_models(carried_out(star({"name": "momentum", "beta": 0.0})))

    np.testing.assert_allclose(served[:12], plain[:12], rtol=1e-3, atol=1e-4)
    with_momentum = final_models(carried_out(star({"name": "momentum", "beta": 0.9})))
    assert np.abs(with_momentum[:12] - plain[:12]).max() > 0.01


def test_each_client_adopts_the_version_it_is_sent():
    """In a world where nobody trains: after a push every client holds what the server chose for it."""
    prepared = prepare(
        load_scenario(star("factions", training={**DAMPED, "learning_rate": 1e-30}, observers=[]))
    )
    asked, server = [], prepared.seams.serving._server
    first = server.round

    def noted(*given):
        asked.append(first(*given))
        return asked[-1]

    server.round = noted
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        last, held = asked[-1], final_models(prepared)[:12, LAYOUT.merged]
        np.testing.assert_allclose(held, last.versions[last.version_of], rtol=1e-6)
    assert len(asked) == 8
    assert 0 < last.version_of.sum() < 12
    assert not np.array_equal(last.versions[0], last.versions[1])
    assert prepared.seams.serving.extras["a"].tolist() == [7, 7, 7]


@pytest.mark.slow
def test_extras_are_in_the_size_of_what_the_coordinator_sends(tmp_path):
    run = simulate(star("factions"), out=tmp_path / "run")
    message, whole = run.events("message"), LAYOUT.message_bytes

    down = message["sender"] == 12
    assert set(message["size_bytes"][down]) == {whole + 20}
    assert set(message["size_bytes"][~down]) == {whole}


@pytest.mark.parametrize("name", BROKEN)
def test_a_downlink_that_is_not_as_announced_is_refused(name):
    with pytest.raises(ScenarioError, match=f"Failing: round 0.*{BROKEN[name][1]}"):
        carried_out(star(name, observers=[]))


@pytest.mark.parametrize(
    ("server", "more", "message"),
    [
        ("momentm", {}, "did you mean 'momentum'"),
        ({"name": "momentum", "beta": 1.0}, {}, "momentum: beta: found 1.0, input should be less than 1"),
        ({"name": "momentum", "bata": 1.0}, {}, "momentum has no option 'bata'; did you mean 'beta'"),
        (
            "momentum",
            {"aggregation": {"name": "synchronous", "mixing": 0.5}},
            "found server and aggregation.mixing",
        ),
    ],
)
def test_bad_servers_are_refused_in_plain_words(server, more, message):
    with pytest.raises(ScenarioError, match=message):
        load_scenario(star(server, **more))


def test_a_server_cannot_write_into_what_was_published(tmp_path, monkeypatch):
    class Writing(Factions):
        def round(self, published, *others):
            published[:] = 0
            return super().round(published, *others)

    monkeypatch.setitem(SERVERS._members, "factions", Writing)
    with pytest.raises(ValueError, match="read-only"):
        simulate(star("factions"), out=tmp_path / "run")
