"""Secure sums among neighbours: a node learns the sum of what its neighbours send, and its observers see no more."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS, Attack
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions
from gossiprec.compute.secure_sums import KEY_BYTES, SHARE_BYTES
from gossiprec.emulation import prepare, replay, resume, simulate
from gossiprec.runs import read_log
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import temporarily_registered
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.tiny_runs import SINGLE, carried_out, final_models, tiny

RING = {"graph": {"family": "ring", "k": 4}}
IN_STEP = {"name": "rand-gossip", "wakes": 6, "fanout": 4, "wake": {"law": "constant"}, "view": RING}
DELAYED = {"latency": {"law": "constant", "value": 0.2}}
SLOW = {"latency": {"law": "exponential", "mean": 0.3}, "loss": 0.1}
SECURE = {"name": "secure-neighbours", "threshold": 0.5}
PLAIN = [{"name": "robust-merge", "rule": "mean", "buffer": 9}, {"name": "share-less", "tau": 0}]
AIMS = [
    SINGLE,
    {"name": "loss-mia", "who": "single", "pairs": 4},
    {"name": "reconstruction", "who": "single", "nodes": [0, 3], "over": "all"},
]


def ring(policy=SECURE, **sections):
    given = {
        "protocol": IN_STEP,
        "observers": [],
        "executor": {"name": "fused"},
        "training": {"batch_size": "full"},
    }
    policies = policy if isinstance(policy, list) else [policy]
    return tiny(**{**given, "policies": policies, **sections})


class Recording(Attack):
    """All nodes on their own, which keep what they see before each of their merges."""

    Options = NoOptions

    def __init__(self, options, context):
        super().__init__(options, context)
        self.seen = {}

    @property
    def nodes(self):
        return np.arange(self.context.n_users)

    def observe(self, seen):
        models = seen.models()
        for k, (receiver, sender) in enumerate(
            zip(seen.receivers.tolist(), seen.senders.tolist(), strict=True)
        ):
            self.seen.setdefault(receiver, []).append((sender, seen.messages[k], models[k], seen.base(k)))

    def state(self, now):
        return {}

    def restore(self, state):
        """It keeps nothing."""


@pytest.fixture(scope="module")
def pair():
    """The same run with secure sums of fine numbers, and with the plain mean, each with what all nodes see."""
    with temporarily_registered(ATTACKS, {"recording": Recording}):
        more = {"network": DELAYED, "observers": [{"name": "recording"}]}
        yield [carried_out(ring(policy, **more)) for policy in ({**SECURE, "bits": 30}, PLAIN)]


def test_models_are_those_of_the_plain_mean_up_to_the_encoding(pair):
    secure, plain = pair
    merged = secure.components.layout.merged
    np.testing.assert_allclose(
        final_models(secure)[:, merged], final_models(plain)[:, merged], rtol=1e-4, atol=1e-6
    )
    assert secure.seams.schemes[0].rounds.counts == {
        "rounds": 12 * 5, "skipped": 0, "requested": 12 * 5 * 4, "dropped": 0, "recovered": 0
    }  # fmt: skip


def test_observers_see_the_mean_of_the_neighbours_in_place_of_each_model(pair):
    secure, plain = pair
    weights, merged, users = (
        secure.components.merge_weights,
        secure.components.layout.merged,
        secure.components.layout.users,
    )
    for receiver, single in plain.attacks[0].seen.items():
        shown = secure.attacks[0].seen[receiver]
        assert sorted(message for _, message, *_ in shown) == sorted(message for _, message, *_ in single)
        for first in range(0, len(shown), 4):  # four neighbours in a ring of degree 4
            senders = [sender for sender, *_ in single[first : first + 4]]
            models = np.array([model for *_, model, _ in single[first : first + 4]], np.float64)
            mean = np.average(models, axis=0, weights=weights[senders])[merged]
            for sender, _, model, base in shown[first : first + 4]:
                np.testing.assert_allclose(model[merged], mean, rtol=1e-4, atol=1e-6)
                assert sender in senders
                assert base is None
                assert np.isnan(model[users]).all()


@pytest.mark.slow
@pytest.mark.full
def test_masks_threads_shards_and_resuming_change_no_byte(tmp_path):
    evaluate = {"every": 1, "metrics": ["hr@5"]}
    scenario = ring({**SECURE, "clip": 0.3}, network=SLOW, observers=AIMS, evaluate=evaluate)
    whole = outcome(
        simulate({**scenario, "executor": {"name": "fused", "threads": 2}}, out=tmp_path / "a").path
    )
    assert whole["summary"]["secure_sums"]["recovered"] > 0
    unmasked = {**scenario, "policies": [{**SECURE, "clip": 0.3, "masks": False}]}
    plain = outcome(simulate(unmasked, out=tmp_path / "b").path)
    assert not plain["summary"]["secure_sums"]["masked"]
    plain["summary"]["secure_sums"]["masked"] = True
    assert plain == whole
    broken = ended_early(tmp_path / "c", scenario, 4)
    assert outcome(resume(broken.path).path) == whole
    assert replay(broken.path).confirmed
    single = {**scenario, "observers": [SINGLE]}
    shards = outcome(simulate(divided(single, 2), out=tmp_path / "d", make_shard_group=Threads).path)
    for name in ("digest", "attacks.csv", "metrics.csv"):
        assert shards[name] == whole[name]
    assert shards["summary"]["secure_sums"] == whole["summary"]["secure_sums"]
    assert shards["summary"]["secure_sums"]["clipped"] > 0


@pytest.mark.slow
def test_the_log_has_the_sizes_of_vectors_keys_and_shares(tmp_path):
    run = simulate(ring({**SECURE, "clip": 0.2}, network=DELAYED), out=tmp_path / "run")
    log, summary = read_log(run.path / "events.mplog"), json.loads((run.path / "summary.json").read_text())
    assert set(log.events("message")["size_bytes"]) == {summary["secure_sums"]["vector_bytes"]}
    n, rounds = 4, 12 * 5
    per_client = 2 * n * KEY_BYTES + (5 * n - 4) * SHARE_BYTES  # Bonawitz et al. 2017, section 7
    assert log.events("control")["size_bytes"].sum() == rounds * n * per_client
    assert any("numbers of answers were clipped" in note for note in summary["notes"])


@pytest.mark.slow
@pytest.mark.full
def test_executors_agree():
    models = [
        final_models(carried_out(ring(network=SLOW, executor={"name": name})))
        for name in ("reference", "batched", "fused")
    ]
    for other in models[1:]:
        np.testing.assert_allclose(other, models[0], rtol=1e-3, atol=1e-4)


def gossip(**options):
    return ring(protocol={**IN_STEP, **options})


COALITION = {**SINGLE, "who": "coalition", "fraction": 0.5}
REFUSED = {
    "nodes must wake in step": gossip(wake={"law": "exponential"}),
    "fanout of at least its degree": gossip(fanout=3),
    "know of one another; use rand-gossip": ring(protocol={"name": "epidemic", "wakes": 3}),
    "found 5, but only 4 send to node 0": ring({**SECURE, "minimum": 5}),
    "but only 1 send to node 1": gossip(fanout=11, view={"graph": {"family": "star"}}),
    "it adopts, answers, scores or trains on single models": gossip(train_on="receive"),
    "found 3 of 12 nodes; expected all": ring({**SECURE, "nodes": [0, 1, 2]}),
    "user_table 'averaged'": gossip(user_table="averaged"),
    "another policy sends parts of models": ring([SECURE, {"name": "top-k"}]),
    "is a coalition": ring(observers=[COALITION]),
    "bits, and 64 is the limit": ring({**SECURE, "clip": 1e6, "bits": 40}),
    "and another policy both define how node 0": ring([SECURE, PLAIN[0]]),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_what_does_not_fit_is_refused_with_the_reason(problem):
    with pytest.raises(ScenarioError) as refused:
        prepare(load_scenario(REFUSED[problem]))
    assert problem in str(refused.value)
