"""Epsilon of noise on numbers that are cut off one by one: of each number, and of all that a node has sent."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import yaml

from gossiprec.cli.summary_text import _spent, format_header
from gossiprec.compute.plan.tape import Op
from gossiprec.defences import POLICIES
from gossiprec.defences.ldp import LDP, ClipAndNoise
from gossiprec.emulation import resume, simulate
from gossiprec.emulation.run_parts.ledger import PrivacyLedger
from gossiprec.models import MODELS
from gossiprec.network.protocols import PROTOCOLS, Protocol
from tests.cli.calls import invoke
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.test_clients_without_models import CHURN, NETWORK, SGD, star
from tests.emulation.test_policy_runs import DP
from tests.emulation.tiny_runs import tiny

CUT_OFF = {"name": "ldp", "norm": "linf", "bound": 0.5, "noise": "laplace", "scale": 0.25}
EACH = 4.0
"""Two times 0.5 over 0.25."""
WHOLE = 8 + 40 * 8 + 9
"""A user's row, 40 items and the shared weights of ``tiny``'s model."""
FEDAVG = {"name": "fedavg", "rounds": 4}


def spent(run):
    """Return the epsilon that the log tells last of each node."""
    rows = run.events("privacy")
    return dict(zip(rows["node"].tolist(), rows["epsilon"].tolist(), strict=True))


def pushes(run):
    """Return how many messages each node has sent; one to several peers is one."""
    message = run.events("message")
    return {n: len(np.unique(message["sent_at"][message["sender"] == n])) for n in range(12)}


def test_in_gossip_each_push_spends_that_of_all_numbers_of_a_model(tmp_path):
    policies = [{**CUT_OFF, "nodes": [1, 6, 7]}, {"name": "share-less", "nodes": [6, 8]}]
    run = simulate(tiny(policies=policies), out=tmp_path / "run")
    sent = pushes(run)
    due = {1: EACH * WHOLE * sent[1], 6: EACH * (WHOLE - 8) * sent[6], 7: EACH * WHOLE * sent[7]}

    assert min(sent.values()) > 1
    assert spent(run) == due
    assert run.summary["privacy"] == {
        "nodes": 3,
        "delta": 0.0,
        "epsilon_max": max(due.values()),
        "epsilon_mean": pytest.approx(sum(due.values()) / 3),
        "noise_multiplier_min": 0.25,
        "noise_multiplier_max": 0.25,
        "epsilon_per_coordinate": EACH,
        "coordinates_max": max(due.values()) / EACH,
    }


def test_of_clients_without_models_the_values_of_touched_rows_count_and_not_the_ids(tmp_path):
    run = simulate(star(policies=[{**CUT_OFF, "of": "update", "nodes": [3, 5, 9]}]), out=tmp_path / "run")
    message, due, sizes = run.events("message"), Counter(), set()
    for node, size in zip(message["sender"].tolist(), message["size_bytes"].tolist(), strict=True):
        if node in (3, 5, 9):
            touched, rest = divmod(
                size - 4 * 9, 4 * (1 + 8)
            )  # an id and a row each, beside nine shared weights
            assert rest == 0
            due[node] += EACH * (8 * touched + 9)
            sizes.add((node, touched))

    assert len(sizes) > 3  # the numbers in a message differ from message to message
    assert spent(run) == due
    privacy = run.summary["privacy"]
    assert privacy["epsilon_max"] == max(due.values()) == EACH * privacy["coordinates_max"]
    assert privacy["epsilon_per_coordinate"] == EACH
    assert privacy["items_in_the_open"] is True


def test_a_row_that_a_recommender_tells_beside_an_update_is_in_no_account(tmp_path):
    pairs = {
        "model": {"name": "mf", "dim": 4, "init_std": 0.1, "loss": "bpr"},
        "training": {**SGD, "batch_size": "full", "negatives": 1},
        "recommender": {"name": "perfedrec"},
    }
    run = simulate(star(policies=[{**CUT_OFF, "of": "update"}], **pairs), out=tmp_path / "run")
    message, due = run.events("message"), Counter()
    for node, size in zip(message["sender"].tolist(), message["size_bytes"].tolist(), strict=True):
        if node < 12:
            touched, rest = divmod(
                size - 4 * 4, 4 * (1 + 4)
            )  # beside the rows and their ids the row that is told
            assert rest == 0
            due[node] += EACH * 4 * touched
    assert spent(run) == due
    assert run.summary["privacy"]["told_in_the_open"] is True
    assert format_header(run.summary).endswith(
        "; the items concerned are not protected; what clients upload about their users in addition is not protected"
    )


@pytest.fixture
def noised():
    """Register a policy like ``ldp`` that counts the numbers it adds noise to; return the counts by node and push.

    Its messages carry 64 bytes more, of which nothing is accounted.
    """
    counts = {}

    class Counting(ClipAndNoise):
        extra_bytes = 64

        def encode(self, payload, base, push):
            counts[push.node, push.number] = sum(part.size for part in payload.parts)
            return super().encode(payload, base, push)

    class CountingLDP(LDP):
        def transform(self):
            return Counting(self.options)

    POLICIES._members["counting"] = CountingLDP
    yield counts
    del POLICIES._members["counting"]


SLOW = {"network": NETWORK, "churn": CHURN}
RUNS = {
    "gossip": tiny(),
    "gossip-slow": tiny(**SLOW),
    "receive": tiny(protocol={**tiny()["protocol"], "train_on": "receive"}),
    "star": tiny(protocol=FEDAVG, observers=[]),
    "star-slow": tiny(protocol=FEDAVG, observers=[], **SLOW),
    "averaged": tiny(protocol={**FEDAVG, "user_table": "averaged"}, observers=[]),
    "updates": star(rounds=6),
    "updates-slow": star(rounds=6, **SLOW),
    "updates-once": star(rounds=6, training={**SGD, "negatives_drawn": "once"}, network=NETWORK),
    "items-alone": star(rounds=6, model={"name": "mf", "dim": 4, "init_std": 0.1}),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.cases(3)
def test_as_many_numbers_are_accounted_as_noise_was_added_to(run, noised, tmp_path):
    policy = {**CUT_OFF, "name": "counting", "nodes": [0, 2, 3, 5, 8]}
    done = simulate({**RUNS[run], "policies": [policy]}, out=tmp_path / "run")
    due = Counter()
    for (node, _), count in noised.items():
        due[node] += count

    assert len(due) == 5
    # a push after the last report, or lost on its way, is in the log of no message, but spent all the same
    assert spent(done) == {node: EACH * count for node, count in due.items()}
    assert done.summary["privacy"]["coordinates_max"] == max(due.values())
    assert ("items_in_the_open" in done.summary["privacy"]) == run.startswith(("updates", "items"))


@pytest.mark.parametrize(
    "options",
    [{"scale": 0.0}, {"noise": "gaussian"}, {"norm": "l2"}, {"norm": "l1", "scale": 0.0}],
    ids=["without noise", "gaussian", "l2", "l1 without noise"],
)
@pytest.mark.parametrize("client_model", ["own", "none"])
@pytest.mark.cases(3)
def test_of_other_laws_and_without_noise_no_epsilon_is_told(options, client_model, tmp_path):
    run = simulate(star(client_model, policies=[{**CUT_OFF, **options}]), out=tmp_path / "run")
    assert run.summary["privacy"] is None
    assert spent(run) == {}


@pytest.mark.parametrize("options", [{"norm": "l1"}, {"norm": "l2", "noise": "gaussian"}, DP])
def test_where_messages_or_samples_are_accounted_nothing_is_said_of_coordinates(options, tmp_path):
    run = simulate(
        tiny(policies=[{**(CUT_OFF if "norm" in options else {}), **options}]), out=tmp_path / "run"
    )
    assert list(run.summary["privacy"]) == [
        "nodes", "delta", "epsilon_max", "epsilon_mean", "noise_multiplier_min", "noise_multiplier_max",
    ]  # fmt: skip


def test_nodes_of_both_kinds_are_in_one_account(tmp_path):
    policies = [{**CUT_OFF, "nodes": [1, 2]}, {**CUT_OFF, "norm": "l1", "nodes": [4]}]
    run = simulate(tiny(policies=policies), out=tmp_path / "run")
    sent = pushes(run)
    due = {1: EACH * WHOLE * sent[1], 2: EACH * WHOLE * sent[2], 4: EACH * sent[4]}
    assert spent(run) == due
    assert run.summary["privacy"]["nodes"] == 3
    assert run.summary["privacy"]["epsilon_mean"] == pytest.approx(sum(due.values()) / 3)
    assert run.summary["privacy"]["coordinates_max"] == WHOLE * max(sent[1], sent[2])


def test_the_largest_epsilon_of_a_coordinate_is_told(tmp_path):
    policies = [{**CUT_OFF, "nodes": [1]}, {**CUT_OFF, "scale": 0.05, "nodes": [2]}]
    privacy = simulate(tiny(policies=policies), out=tmp_path / "run").summary["privacy"]
    assert privacy["epsilon_per_coordinate"] == 20.0
    assert (privacy["noise_multiplier_min"], privacy["noise_multiplier_max"]) == (0.05, 0.25)


@pytest.mark.slow
def test_the_log_of_a_node_with_noisy_gradients_too_tells_what_these_have_spent(tmp_path):
    both = simulate(tiny(policies=[DP, CUT_OFF]), out=tmp_path / "both")
    alone = simulate(tiny(policies=[DP]), out=tmp_path / "alone")
    assert spent(both) == spent(alone)
    assert both.summary["privacy"]["epsilon_max"] == EACH * WHOLE * max(pushes(both).values())


def test_an_account_stays_as_it_was_last_told_also_in_another_process():
    policy = LDP(LDP.Options(norm="linf", bound=0.5, scale=0.25), np.array([0, 2]))
    counts, coordinates = np.ones(3, np.int64), np.array([10, 99, 30])
    ledger, later = (PrivacyLedger([], 3, lambda _: coordinates, [policy]) for _ in range(2))
    nodes, epsilon = ledger.newly_spent(counts, counts)
    assert dict(zip(nodes.tolist(), epsilon.tolist(), strict=True)) == {0: 40.0, 2: 120.0}

    told = ledger.summary()
    later.restore(ledger.state())
    coordinates += 5  # sent since
    assert ledger.summary() == told == later.summary()
    assert told["privacy"]["coordinates_max"] == 30
    coordinates[:] = [10, 99, 31]
    assert later.newly_spent(counts, counts)[0].tolist() == [2]


@pytest.mark.parametrize("client_model", ["own", "none"])
@pytest.mark.full
def test_a_run_that_goes_on_ends_with_the_same_account(client_model, tmp_path):
    scenario = often(**star(client_model, policies=[{**CUT_OFF, "of": "update"}], rounds=8, **SLOW))
    whole = simulate(scenario, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", scenario, 3)
    assert 0 < broken.summary["privacy"]["epsilon_max"] < whole.summary["privacy"]["epsilon_max"]
    assert outcome(resume(broken.path).path) == outcome(whole.path)


@pytest.mark.parametrize("client_model", ["own", "none"])
def test_the_closing_words_tell_one_number_from_all(client_model, capsys, tmp_path):
    file = tmp_path / "star.yaml"
    file.write_text(yaml.safe_dump(star(client_model, policies=[CUT_OFF])))
    code, out, err = invoke(capsys, "simulate", file, "--out", tmp_path / "run", "--no-plots")
    assert code == 0, err
    (line,) = [line for line in out.splitlines() if line.startswith("privacy")]
    assert line.startswith("privacy       epsilon 4 per value sent, ")
    assert " for all values of a node (delta 0) on 12 nodes, noise multiplier 0.25" in line
    assert line.endswith("the items concerned are not protected") == (client_model == "none")


def test_the_model_is_as_large_as_these_tests_say():
    layout = MODELS["gmf"](MODELS["gmf"].Options(dim=8)).layout(40)
    assert layout.message_bytes == 4 * WHOLE


OPEN = {
    "rand-gossip": ({"name": "rand-gossip", "wakes": 2}, False),
    "pers-gossip": ({"name": "pers-gossip", "view": {"size": 3}, "wakes": 2}, True),
    "fedavg": ({"name": "fedavg", "rounds": 2}, False),
}


@pytest.mark.parametrize(
    "policy", [{**DP, "nodes": "all"}, {**CUT_OFF, "nodes": "all"}], ids=["dp-sgd", "ldp"]
)
@pytest.mark.parametrize("name", OPEN)
def test_choices_that_follow_items_without_noise_are_stated(name, policy, tmp_path):
    protocol, follow = OPEN[name]
    scenario = tiny(policies=[policy], protocol=protocol)
    scenario["dataset"]["split"]["validation"] = 2
    privacy = simulate(scenario, out=tmp_path / "run").summary["privacy"]

    assert privacy.get("choices_in_the_open", False) is follow
    assert ("depend on its items without noise" in _spent(privacy)) is follow


def test_each_protocol_says_whether_its_choices_follow_data():
    """What appraises versions, or is told what they are worth, reads items; a new protocol is to be looked at here."""
    following = {name for name in PROTOCOLS if getattr(PROTOCOLS[name], "merge_operation", None) is Op.SCORE}
    base = Protocol.choices_follow_data
    said = {name for name in PROTOCOLS if PROTOCOLS[name].choices_follow_data is not base}
    linked = {"epidemic", "push-pull", "rand-gossip"}  # whose views can be by taste or place
    assert following == {"pers-gossip"}
    assert said == following | linked
