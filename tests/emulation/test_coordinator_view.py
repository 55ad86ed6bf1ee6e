"""What the coordinator sees: every answer, sums of rounds, or only the final model."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS, Attack
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions
from gossiprec.compute.secure_sums import KEY_BYTES, SHARE_BYTES
from gossiprec.emulation import prepare, replay, resume, simulate
from gossiprec.rules.aggregators import AGGREGATORS
from gossiprec.rules.aggregators.mean import Mean
from gossiprec.runs import read_log
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import temporarily_registered
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.tiny_runs import COORDINATOR, carried_out, final_models, tiny
from tests.slow import slow_except_first

MODELS = {"name": "fedavg", "rounds": 8, "participation": 0.5}
UPDATES = {**MODELS, "client_model": "none", "merge": "touched-mean"}
MODES = {"models": MODELS, "updates": UPDATES}
SLOW = {"latency": {"law": "exponential", "mean": 0.3}, "loss": 0.1}
SUMS, FINAL = {"sees": "sums", "threshold": 0.5}, {"sees": "final"}
AIA = {"name": "aia", "adversaries": 2, "community_size": 3, "models": 2, "epochs": 1}
FAST, FULL = {"name": "fused"}, {"batch_size": "full"}


def star(protocol=MODELS, sees=SUMS, **sections):
    given = {
        "protocol": protocol,
        "coordinator": sees,
        "observers": [COORDINATOR],
        "training": FULL,
        **sections,
    }
    return tiny(**given)


class Recording(Attack):
    """The coordinator, which keeps the senders and models that it sees."""

    Options = NoOptions

    def __init__(self, options, context):
        super().__init__(options, context)
        self.seen = []

    @property
    def nodes(self):
        return np.array([self.context.coordinator], np.int64)

    def observe(self, seen):
        self.seen.append((seen.senders.tolist(), seen.models(), seen.base(0), seen.own_model(0)))

    def state(self, now):
        return {}

    def restore(self, state):
        """It keeps nothing."""


class RecordingPool(Recording):
    """The same coordinator, which sees messages when they arrive."""

    @property
    def nodes(self):
        return np.zeros(0, np.int64)

    @property
    def pools(self):
        return [np.array([self.context.coordinator], np.int64)]

    def observe(self, seen):
        self.seen.append((seen.senders.tolist(), seen.models()))


@pytest.fixture(params=[Recording, RecordingPool], ids=["merges", "pool"])
def recording(request):
    with temporarily_registered(ATTACKS, {"recording": request.param}):
        yield


@pytest.mark.parametrize("mode", MODES)
def test_sums_change_models_only_by_the_encoding(mode):
    plain, summed = (
        final_models(carried_out(star(MODES[mode], sees, observers=[], executor=FAST)))[:12]
        for sees in ({"sees": "updates"}, {"sees": "sums", "bits": 30})
    )
    np.testing.assert_allclose(summed, plain, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("mode", slow_except_first(MODES))
@pytest.mark.full
def test_executors_agree(mode):
    one, *others = (
        final_models(carried_out(star(MODES[mode], network=SLOW, observers=[], executor={"name": name})))
        for name in ("reference", "batched", "fused")
    )
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", slow_except_first(MODES))
@pytest.mark.cases(1)
def test_masks_threads_and_shards_change_no_byte(mode, tmp_path):
    scenario = star(MODES[mode], network=SLOW, executor=FAST, observers=[COORDINATOR, AIA])
    whole = outcome(simulate({**scenario, "executor": {**FAST, "threads": 2}}, out=tmp_path / "whole").path)
    assert whole["summary"]["secure_sums"]["recovered"] > 0
    unmasked = {**scenario, "coordinator": {**SUMS, "masks": False}}
    plain = outcome(simulate(unmasked, out=tmp_path / "unmasked").path)
    assert not plain["summary"]["secure_sums"]["masked"]
    plain["summary"]["secure_sums"]["masked"] = True
    assert plain == whole
    shards = simulate(divided(scenario, 2), out=tmp_path / "shards", make_shard_group=Threads)
    found = outcome(shards.path)
    assert {name: found[name] for name in ("digest", "attacks.csv", "metrics.csv")} == {
        name: whole[name] for name in ("digest", "attacks.csv", "metrics.csv")
    }


@pytest.mark.parametrize("sees", [SUMS, FINAL], ids=["sums", "final"])
@pytest.mark.parametrize("mode", slow_except_first(MODES))
@pytest.mark.full
def test_a_resumed_run_is_as_a_whole_one(mode, sees, tmp_path):
    scenario = star(
        MODES[mode],
        sees,
        network=SLOW,
        executor=FAST,
        evaluate={"every": 1, "metrics": ["hr@5"]},
    )
    whole = simulate(scenario, out=tmp_path / "whole")
    run = ended_early(tmp_path / "broken", scenario, 4)
    assert outcome(resume(run.path).path) == outcome(whole.path)
    assert replay(run.path).confirmed


@pytest.mark.parametrize("mode", MODES)
def test_the_coordinator_sees_the_mean_of_a_round_in_place_of_each_answer(mode, recording):
    prepared = carried_out(star(MODES[mode], observers=[{"name": "recording"}], network=SLOW, executor=FAST))
    (attack,) = prepared.attacks
    rounds = prepared.seams.schemes[0].rounds
    assert (
        0 < len(attack.seen) == rounds.counts["rounds"] - rounds.counts["skipped"] - 1
    )  # the last one is open
    merged = prepared.components.layout.merged
    for senders, models, *versions in attack.seen:
        assert len(set(senders)) == len(senders) >= 2
        assert (models[:, merged] == models[0, merged]).all()
        assert np.isnan(models[:, prepared.components.layout.users]).all()
        for version in versions:
            assert not np.array_equal(version[merged], models[0, merged])


@pytest.mark.parametrize("mode", MODES)
def test_the_coordinator_sees_the_final_model_once(mode, recording, tmp_path):
    scenario = load_scenario(star(MODES[mode], FINAL, observers=[{"name": "recording"}], executor=FAST))
    prepared = carried_out(scenario.resolved())
    (attack,) = prepared.attacks
    assert not attack.seen

    prepared.seams.schemes[0].show_final_model(prepared)

    (senders, models, *_), merged = attack.seen[0], prepared.components.layout.merged
    version = final_models(prepared)[-1] if mode == "models" else None
    assert sorted(senders) == sorted(set(senders))
    assert (models[:, merged] == models[0, merged]).all()
    if version is not None:
        np.testing.assert_array_equal(models[0, merged], version[merged])


def test_an_attack_on_the_final_model_scores_at_chance(tmp_path):
    run = simulate(star(MODELS, FINAL), out=tmp_path / "run")
    rows = json.loads((run.path / "summary.json").read_text())["attacks"]
    assert [row["max_aac"] for row in rows] == [pytest.approx(3 / 11)]  # 3 of 11 others


@pytest.mark.parametrize("mode", MODES)
def test_the_log_has_the_sizes_of_vectors_keys_and_shares(mode, tmp_path):
    run = simulate(star(MODES[mode], {"sees": "sums"}, observers=[], executor=FAST), out=tmp_path / "run")
    log, n, rounds = read_log(run.path / "events.mplog"), 6, 8
    messages, control = log.events("message"), log.events("control")
    summary = json.loads((run.path / "summary.json").read_text())
    vector = summary["secure_sums"]["vector_bytes"]
    sent = messages["sender"] < 12
    assert set(messages["size_bytes"][sent]) == {vector}
    assert sent.sum() == n * rounds
    complete = n * (rounds - 1) * (2 * n * KEY_BYTES + (5 * n - 4) * SHARE_BYTES)
    open_round = n * (2 * n * KEY_BYTES + 4 * (n - 1) * SHARE_BYTES)
    assert control["size_bytes"].sum() == complete + open_round
    total = messages["size_bytes"].sum() + control["size_bytes"].sum()
    assert summary["bytes"]["sent"] == total
    assert (np.diff(control["time"]) >= 0).all()


def test_rounds_with_too_few_answers_are_skipped_and_noted(tmp_path):
    lost = star(network={"latency": {"law": "constant", "value": 3.0}}, observers=[])  # all answers are late
    run = simulate(lost, out=tmp_path / "run")
    summary = json.loads((run.path / "summary.json").read_text())
    assert summary["secure_sums"] | {"clipped": 0} == {
        "rounds": 8, "skipped": 7, "requested": 48, "dropped": 42, "recovered": 0, "clipped": 0, "bits": 24,
        "vector_bytes": 990, "masked": True,
    }  # fmt: skip
    assert any(
        note.startswith("7 of 8 rounds were skipped, because fewer clients") for note in summary["notes"]
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.full
def test_clients_without_data_send_zeros_and_count_as_answers(mode, recording):
    empty = {
        "protocol": {**MODES[mode], "participation": 1.0},
        "observers": [{"name": "recording"}],
        "executor": FAST,
    }
    given = star(sees={"sees": "sums", "bits": 30}, **empty)
    given["dataset"] = {**given["dataset"], "without": list(range(11))}  # only client 11 has data
    prepared = carried_out(given)
    plain = carried_out({**given, "coordinator": {"sees": "updates"}, "observers": []})

    merged = prepared.components.layout.merged
    found, expected = (final_models(run)[:11, merged] for run in (prepared, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert prepared.seams.schemes[0].rounds.counts["dropped"] == 0
    assert all(sorted(senders) == list(range(12)) for senders, *_ in prepared.attacks[0].seen)


def test_clipped_numbers_are_noted(tmp_path):
    run = simulate(star(sees={"sees": "sums", "clip": 1e-3}, observers=[]), out=tmp_path / "run")
    summary = json.loads((run.path / "summary.json").read_text())
    assert summary["secure_sums"]["clipped"] > 0
    assert any("numbers of answers were clipped" in note for note in summary["notes"])


def fedavg(**options):
    return star({**MODELS, **options})


BUFFERED = {"name": "buffered", "buffer": 3, "concurrency": 6}
LATE = {"network": {"latency": {"law": "constant", "value": 0.5}}}
REFUSED = {
    "coordinator.sees: found 'sums', but in rand-gossip": tiny(coordinator=SUMS),
    "coordinator: found clip, but sees: final; set sees to sums": star(sees={**FINAL, "clip": 2}),
    "protocol.merge: median compares or limits single answers": fedavg(merge="median"),
    "protocol.merge: norm-bound compares or limits single answers": fedavg(merge="norm-bound"),
    "protocol.server: adam computes with single answers": star(
        {**UPDATES, "upload": "gradients", "server": {"name": "adam", "step_per": "answer"}},
    ),
    "protocol.aggregation.name: found 'buffered'": {
        **fedavg(participation=1.0, aggregation=BUFFERED), **LATE
    },
    "protocol.aggregation: found staleness or mixing": fedavg(aggregation={"name": "synchronous", "mixing": 0.5}),
    "protocol.aggregation.invalid: found 'discard'": fedavg(aggregation={"name": "synchronous", "invalid": "discard"}),
    "protocol.round.late: found 'count'": fedavg(round={"deadline": 1.0}),
    "coordinator.sees: found 'sums', but with protocol.user_table 'averaged'": fedavg(user_table="averaged"),
    "coordinator.minimum: found 7, but a round has only 6 clients": star(sees={**SUMS, "minimum": 7}),
    "coordinator.modulus: found 16, but sums of 6 clients with clip 1, 16 bits": star(sees={**SUMS, "modulus": 16}),
    "coordinator.modulus: found auto, but sums of 6 clients with clip 1e+06, 40 bits": star(
        sees={**SUMS, "clip": 1e6, "bits": 40}
    ),
    "policies: a policy sends parts of models": star(policies=[{"name": "top-k", "share": 0.5}]),
}  # fmt: skip


@pytest.mark.parametrize("problem", REFUSED)
def test_what_does_not_fit_is_refused_with_the_reason(problem):
    with pytest.raises(ScenarioError) as refused:
        prepare(load_scenario(REFUSED[problem]))
    assert problem in str(refused.value)


@pytest.mark.parametrize("server", ["momentum", "adaptive", "fedyogi", "adam"])
@pytest.mark.cases(3)
def test_servers_of_sums_run(server):
    prepared = carried_out(star({**UPDATES, "server": server}, executor=FAST, observers=[COORDINATOR]))
    assert np.isfinite(final_models(prepared)).all()


class Halved(Mean):
    """A plug-in's rule that replaces the result of a rule of sums, and inherits what it says of itself."""

    def reduce(self, own, inbox):
        return super().reduce(own, inbox) / 2


def test_a_rule_that_replaces_the_result_of_a_rule_of_sums_is_refused():
    with (
        temporarily_registered(AGGREGATORS, {"halved": Halved}),
        pytest.raises(ScenarioError, match="compares or limits single answers"),
    ):
        prepare(load_scenario(fedavg(merge="halved", client_model="none")))
