"""Whole runs of clients without a model whose updates are reduced item by item, and of servers on what comes out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import registered_name
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.rules.aggregators import make_aggregator
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_clients_without_models import CHURN, NETWORK, star, version
from tests.emulation.tiny_runs import COORDINATOR, tiny
from tests.slow import slow_except_first

TOUCHED = {"over": "touched"}
RULES = {
    "median": {"name": "median", **TOUCHED, "rescale": "n"},
    "trimmed": {"name": "trimmed-mean", **TOUCHED, "drop": 1},
    "farthest": {"name": "trimmed-mean", **TOUCHED, "trim": "farthest", "share": 0.3},
    "krum": {"name": "krum", **TOUCHED},
    "nearest": {"name": "krum", **TOUCHED, "mode": "nearest-to-mean"},
    "norm-bound": {"name": "norm-bound", **TOUCHED, "bound": 0.05, "then": "sum"},
    "hics": {"name": "hics", "top": 0.2},
    "ucsu": {"name": "ucsu", **TOUCHED},
    "item-regularisation": {"name": "item-regularisation"},
}
TRAINING = {"optimizer": "adam", "learning_rate": 0.02, "batch_size": 16}
LATE = {"round": {"deadline": 0.8, "minimum": 0.5, "give_up": 3.0}}


def slow_network(rule, observers, **more):
    return star(
        merge=rule, rounds=8, network=NETWORK, churn=CHURN, training=TRAINING, protocol={**LATE, **more},
        observers=observers,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.full
def test_a_run_with_late_and_lost_answers_goes_on_where_it_was(rule, tmp_path):
    observers = [COORDINATOR] if rule == "krum" else []
    server = "adam" if rule in ("hics", "median") else None
    scenario = often(**slow_network(RULES[rule], observers, server=server))
    whole = simulate(scenario, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", scenario, 3)

    assert whole.summary["rounds"]["late"] > 0
    assert outcome(resume(broken.path).path) == outcome(whole.path)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.cases(4)
def test_a_run_is_what_the_rule_makes_of_each_inbox(rule):
    """With answers of every round in the next, each version is the rule's, of the one before and its changes."""
    prepared = prepare(load_scenario(star(merge=RULES[rule], rounds=4)))
    store, by_hand = prepared.executor.store, make_aggregator(RULES[rule])
    versions, inboxes = [version(prepared)], []
    reduce = store.inbox

    def noted(*about):
        inboxes.append(reduce(*about))
        return inboxes[-1]

    store.inbox = noted
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    assert len(inboxes) == 3
    for inbox in inboxes:
        versions.append(by_hand.aggregate(versions[-1], inbox))
    assert versions[-1].tobytes() == version(prepared).tobytes()
    assert np.abs(versions[-1] - versions[0]).max() > 1e-3


def spoiled(scenario):
    """Return a run whose client 3 has no numbers from its second answer on."""
    prepared = prepare(load_scenario(scenario))
    plays = prepared.schedule.play(prepared.tape_runner().run_segment)
    next(plays)
    prepared.executor.store.own[3] = np.nan
    return prepared, plays


@pytest.mark.parametrize("rule", ["mean", "sum", RULES["median"]])
@pytest.mark.parametrize("server", [None, "momentum"])
def test_a_model_that_is_not_finite_ends_the_run_and_is_named(rule, server):
    evaluate = {"every": 1, "metrics": ["hr@5"]}
    _, plays = spoiled(
        star(merge=rule, rounds=6, evaluate=evaluate, protocol={"participation": 1.0, "server": server})
    )
    with pytest.raises(
        ScenarioError, match=r"node 3: local update 1 at time 2 produced a model with NaN or infinite values"
    ):
        for _ in plays:
            pass


@pytest.mark.parametrize("rule", ["mean", "touched-mean", RULES["median"], RULES["hics"]])
@pytest.mark.cases(2)
def test_an_update_that_is_not_finite_is_left_out(rule):
    discards = {"aggregation": {"name": "synchronous", "invalid": "discard"}, "participation": 1.0}
    prepared, plays = spoiled(star(merge=rule, rounds=6, protocol=discards))
    for _ in plays:
        pass

    assert np.isfinite(version(prepared)).all()
    assert prepared.seams.reducer.report()["n_discarded"] > 0


def test_answers_wait_to_be_looked_at_where_they_may_be_left_out(tmp_path):
    discards = {"aggregation": {"name": "synchronous", "invalid": "discard"}}
    run = simulate(star("own", "samples", protocol=discards), out=tmp_path / "run")
    assert run.summary["n_discarded"] == 0
    other = simulate(star("own", "samples"), out=tmp_path / "other")
    assert "n_discarded" not in other.summary


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            star("own", RULES["median"]),
            "'median' with over: touched, which reduces updates, but clients send whole models; set client_model to "
            "none, or set over to all",
        ),
        (star("own", "hics"), "'hics', which reduces updates, .* or choose another rule"),
        (
            tiny(policies=[{"name": "robust-merge", "rule": RULES["median"]}]),
            "'median' with over: touched, which reduces updates, but nodes of gossip send whole models; set over",
        ),
        (
            tiny(policies=[{"name": "robust-merge", "rule": "sum"}]),
            "found rule 'sum', which reduces updates, but nodes of gossip",
        ),
        (
            star(merge={"name": "trimmed-mean", **TOUCHED, "drop": 5}),
            "protocol.merge: trimmed-mean needs at least 11 models, but no more than 9 are aggregated together",
        ),
        (
            star(merge={"name": "krum", **TOUCHED, "byzantine": 4}, protocol={"participation": 0.5}),
            "krum needs at least 7 models, but no more than 6",
        ),
        (
            star(
                merge={"name": "trimmed-mean", **TOUCHED, "drop": 2},
                protocol={
                    "participation": 1.0,
                    "aggregation": {"name": "buffered", "buffer": 4, "concurrency": 8},
                },
                network=NETWORK,
            ),
            "trimmed-mean needs at least 5 models, but no more than 4",
        ),
        (
            tiny(
                policies=[{"name": "robust-merge", "rule": {"name": "trimmed-mean", "drop": 2}, "buffer": 3}]
            ),
            "robust-merge: trimmed-mean needs at least 5 models, but no more than 4",
        ),
        (
            star("own", {"name": "krum", "byzantine": 30}),
            "protocol.merge: krum needs at least 33 models, but no more than 9",
        ),
        (star("own", {"name": "krum", "keep": 10}), "krum needs at least 10 models, but no more than 9"),
        (
            star(merge={"name": "krum", **TOUCHED, "mode": "nearest-to-mean", "keep": 10}),
            "krum needs at least 10 models, but no more than 9",
        ),
        (
            tiny(policies=[{"name": "robust-merge", "rule": {"name": "krum", "byzantine": 7}}]),
            "robust-merge: krum needs at least 10 models, but no more than 9",
        ),
    ],
)
def test_what_a_rule_cannot_do_is_told_before_the_run(sections, message):
    with pytest.raises(ScenarioError, match=message):
        prepare(load_scenario(sections))


@pytest.mark.parametrize(
    "rule",
    slow_except_first([{"name": "krum", "byzantine": 2}, "median", {"name": "trimmed-mean", "drop": 2}]),
)
@pytest.mark.full
def test_inboxes_too_small_for_a_rule_are_counted_and_noted(rule, tmp_path):
    """Nodes receive some three models per wake, of which the rules need 4, 2 and 4 besides their own."""
    policies = [{"name": "robust-merge", "rule": rule, "nodes": "all"}]
    needed = make_aggregator(rule).enough
    scenario = often(**tiny(policies=policies, observers=[]))
    sizes = []
    prepared = prepare(load_scenario(scenario))
    reduce = prepared.executor.store.inbox
    prepared.executor.store.inbox = lambda *about: sizes.append(1 + len(about[0])) or reduce(*about)
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    sizes = [size for size in sizes if size > 1]
    small = sum(size < needed for size in sizes)
    assert 0 < small < len(sizes)
    expected = {"n": small, "of": len(sizes)}
    assert prepared.seams.reducer.report()["small_inboxes"] == expected

    run = simulate(scenario, out=tmp_path / "run")
    assert run.summary["small_inboxes"] == expected
    note = f"{small} of {len(sizes)} inboxes held fewer models than {registered_name(rule)} (needs {needed})"
    assert any(each.startswith(note) for each in run.summary["notes"])
    broken = ended_early(tmp_path / "broken", scenario, 3)
    assert resume(broken.path).summary["small_inboxes"] == expected
    shared = simulate(divided(scenario, 2), out=tmp_path / "shared", make_shard_group=Threads)
    assert shared.summary["small_inboxes"] == expected


def test_items_that_too_few_clients_touched_are_counted_and_noted(tmp_path):
    run = simulate(star(merge={**RULES["krum"], "byzantine": 4}, rounds=3), out=tmp_path / "run")
    found = run.summary["small_items"]
    assert 0 < found["n"] < found["of"]
    assert any(
        "of the items in inboxes had fewer deltas than krum (needs 7)" in n for n in run.summary["notes"]
    )


def forward(users, items, weights):
    """NCF by hand: a perceptron on both rows side by side."""
    hidden = torch.cat([users.expand(len(items), -1), items], dim=1)
    for number, (matrix, offset) in enumerate(weights):
        hidden = hidden @ matrix.T + offset
        hidden = torch.relu(hidden) if number < len(weights) - 1 else hidden
    return hidden[:, 0]


def test_what_a_robust_rule_puts_side_by_side_is_in_the_estimate_of_memory():
    needed = {
        rule: prepare(
            load_scenario(star(merge=rule if rule in ("sum", "hics") else RULES[rule]))
        ).memory_bytes
        for rule in ("sum", "hics", "median")
    }
    assert "updates side by side" not in needed["sum"]
    for rule in ("hics", "median"):
        assert needed[rule]["updates side by side"] == 2 * needed[rule]["updates"] > 0


RATE = 0.3


@pytest.mark.parametrize("server", [None, {"name": "momentum", "beta": 0.0, "learning_rate": 0.5}, "adam"])
def test_the_sum_of_one_step_clients_is_a_step_on_the_sum_of_their_gradients(server):
    """NCF, 5 clients, 2 rounds: torch's optimizers on the summed gradients say the same."""
    scenario = star(
        merge="sum",
        rounds=3,
        model={"name": "ncf", "dim": 4, "hidden": [6, 3], "init_std": 0.1},
        training={"optimizer": "sgd", "learning_rate": RATE, "batch_size": "full", "local_epochs": 1},
        protocol={"participation": 1.0, "server": server},
        dataset={**tiny()["dataset"], "users": 5, "items": 12, "interactions": 30},
        observers=[],
        evaluate={"every": 1, "metrics": ["hr@5"]},
    )
    prepared = prepare(load_scenario(scenario))
    store, feed = prepared.executor.store, prepared.executor.work.feed
    shapes = [(12, 4), (6, 8), (6,), (3, 6), (3,), (1, 3), (1,)]
    sizes = [int(np.prod(shape)) for shape in shapes]
    start = np.split(version(prepared).copy(), np.cumsum(sizes)[:-1])
    public = [
        torch.tensor(part.reshape(shape), requires_grad=True)
        for part, shape in zip(start, shapes, strict=True)
    ]
    users = torch.tensor(store.own.copy(), requires_grad=True)
    steps = {
        None: lambda: torch.optim.SGD(public, lr=RATE),
        "adam": lambda: torch.optim.Adam(public, lr=0.01, eps=1e-8),
    }.get(
        server if not isinstance(server, dict) else "half", lambda: torch.optim.SGD(public, lr=RATE * 0.5)
    )()
    rows = []
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        rows.append(version(prepared).copy())

    for update in range(2):
        for each in (*public, users):
            each.grad = None
        for node in range(5):
            samples = feed.samples(node, update=update, negatives=4, seed=5)
            items = public[0][torch.from_numpy(samples["items"]).long()]
            logits = forward(users[node], items, list(zip(public[1::2], public[2::2], strict=True)))
            labels = torch.from_numpy(samples["labels"]).float()
            torch.nn.functional.binary_cross_entropy_with_logits(logits, labels).backward()
        if server == "adam":  # takes changes for gradients: these are RATE times as large
            for each in public:
                each.grad *= RATE
        steps.step()
        with torch.no_grad():
            users -= RATE * users.grad
        expected = np.concatenate([each.detach().numpy().ravel() for each in public])
        tolerance = 1e-6 if server != "adam" else 2e-5  # it enlarges the rounding of small changes
        np.testing.assert_allclose(rows[update + 1], expected, rtol=0, atol=tolerance)
    assert np.abs(rows[2] - rows[0]).max() > 1e-3
