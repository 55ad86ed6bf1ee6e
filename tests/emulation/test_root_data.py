"""Rules and servers that compute on the data of public users: FLTrust, and what such a part may ask."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gossiprec import open_run
from gossiprec.adversaries.poisoners import POISONERS, Poisoner
from gossiprec.base.errors import GossipRecError
from gossiprec.compute.public_users import PublicUsers
from gossiprec.compute.scorer import Scorer
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.rules import RootData, RootDataOptions
from gossiprec.rules.aggregators import AGGREGATORS, Inbox, ModelDelta
from gossiprec.scenario import load_scenario
from gossiprec.testing import check_aggregator
from gossiprec.testing.tiny_runs import temporarily_registered
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_shards import told
from tests.emulation.tiny_runs import carried_out, final_models, tiny
from tests.slow import slow_except_first

ROOT = {"users": [2, 5, 9]}
UPDATES = {"client_model": "none"}
FUTURE = "from __future__ import annotations\n"
DAMPED = {"batch_size": 16, "eps": 1e-3}


def star(root=None, **options):
    """Return a scenario of eight rounds with FLTrust."""
    merge = {"name": "fltrust", "root": ROOT if root is None else root}
    protocol = {"name": "fedavg", "rounds": 8, "merge": merge, **options}
    training = {"batch_size": "full"} if options == UPDATES else DAMPED
    return tiny(
        protocol=protocol, training=training, observers=[], evaluate={"every": 1, "metrics": ["hr@5"]}
    )


def public(scenario, **options):
    """Return the public users of a prepared run, their functions and the coordinator's first model."""
    prepared = prepare(load_scenario(scenario))
    options = RootDataOptions(**(options or ROOT))
    users = PublicUsers.choose(options, prepared.components.split.train, 5, "here")
    found = PublicUsers(Scorer(prepared.executor), prepared.components.feed, users, options, 5)
    model = prepared.components.model.initial_row(prepared.components.layout, 5)[
        prepared.components.layout.merged
    ]
    return prepared, found.root_data(copies=False), model


def fltrust(step, models, own):
    """Return the rule's result where the coordinator's own update is `step`."""
    rule = AGGREGATORS["fltrust"](AGGREGATORS["fltrust"].Options())

    def trained(model, rows, number):
        return model + step, rows + 1

    rule.root = RootData(np.arange(1), np.zeros((1, 2), np.float32), trained, None, None, None)
    rows = np.asarray(models, np.float32)
    return rule, rule.aggregate(own, Inbox(rows, np.arange(len(rows)), np.ones(len(rows))))


def test_it_weights_by_the_cosine_and_scales_to_its_own_update():
    """Equations 2 to 4 of the paper, written down once more."""
    draw = np.random.default_rng(3)
    own, step, steps = (draw.normal(size=shape).astype(np.float32) for shape in (7, 7, (5, 7)))
    trust = np.maximum(0, steps @ step / np.linalg.norm(steps, axis=1) / np.linalg.norm(step))
    scaled = steps / np.linalg.norm(steps, axis=1, keepdims=True) * np.linalg.norm(step)
    assert 0 < (trust > 0).sum() < 5

    rule, found = fltrust(step, own + steps, own)

    np.testing.assert_allclose(found, own + trust @ scaled / trust.sum(), rtol=1e-5, atol=1e-6)
    assert rule.findings() == pytest.approx(
        {"mean_trust": trust.mean(), "untrusted_share": (trust == 0).mean()}, rel=1e-5
    )


def test_models_that_move_the_other_way_change_nothing():
    own, step = np.zeros(3, np.float32), np.array([1, 0, 0], np.float32)
    for models in ([[-1, 0, 0], [-5, 1, 0]], [[np.nan, 0, 0]], [[0, 0, 0]], [[1e30, np.inf, 0]]):
        rule, found = fltrust(step, models, own)
        np.testing.assert_array_equal(found, own)
        assert rule.findings() == {"mean_trust": 0.0, "untrusted_share": 1.0}


def test_before_the_first_inbox_its_numbers_are_unknown():
    rule = AGGREGATORS["fltrust"](AGGREGATORS["fltrust"].Options())
    assert all(np.isnan(value) for value in rule.findings().values())


@pytest.mark.parametrize("model", ["gmf", "ncf", "mf"])
@pytest.mark.cases(2)
def test_the_gradient_is_the_derivative_of_the_loss(model):
    scenario = star() | {"model": {"name": model, "dim": 4}, "executor": {"name": "reference"}}
    _, root, start = public(scenario)
    rows, step = root.first_rows, 2e-3
    for number in range(20):  # the first derivatives are small
        start, rows = root.train(start, rows, number)

    gradient = root.gradient(start, rows, 3)

    assert gradient.shape == start.shape
    for place in np.argsort(-np.abs(gradient))[:4]:
        either = [start.copy(), start.copy()]
        either[0][place] += step
        either[1][place] -= step
        slope = (root.loss(either[0], rows, 3) - root.loss(either[1], rows, 3)) / (2 * step)
        assert slope == pytest.approx(gradient[place], rel=0.05)
    assert root.loss(start, rows, 3) != root.loss(start, rows, 4)  # other negatives


def test_local_updates_lower_the_loss_and_raise_the_users_scores():
    prepared, root, start = public(star())
    model, rows = start, root.first_rows
    for number in range(30):
        model, rows = root.train(model, rows, number)

    assert root.loss(model, rows, 99) < root.loss(start, root.first_rows, 99)
    scores = root.scores(model, rows)
    assert scores.shape == (3, 40)
    own = np.zeros((3, 40), bool)
    for place, user in enumerate(ROOT["users"]):
        own[place, prepared.components.split.train[user]] = True
    assert scores[own].mean() > scores[~own].mean()


def test_only_public_items_are_learnt_as_positives():
    prepared, _, _ = public(star())
    items = prepared.components.split.train[2][:2].tolist()
    _, root, start = public(star(), users=[2], items=items)
    _, other, _ = public(star(), users=[2])

    np.testing.assert_array_equal(root.users, [2])
    assert not np.array_equal(
        root.train(start, root.first_rows, 0)[0], other.train(start, other.first_rows, 0)[0]
    )


@pytest.mark.parametrize("options", [{}, UPDATES], ids=["models", "updates"])
@pytest.mark.cases(1)
@pytest.mark.slow
def test_executors_agree(options):
    one, *others = (
        final_models(carried_out(star(**options) | {"executor": {"name": name}}))
        for name in ("reference", "batched", "fused")
    )
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", slow_except_first([{}, UPDATES]), ids=["models", "updates"])
@pytest.mark.full
def test_a_run_that_ended_early_is_resumed_to_the_same_bytes(options, tmp_path):
    often = star(**options)
    whole = simulate(often, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", often, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)
    rows = whole.findings
    assert set(rows["measure"]) == {"mean_trust", "untrusted_share"}
    assert len(rows["value"]) == 2 * 8
    assert np.isfinite(rows["value"][2:].astype(float)).all()


def test_shards_write_what_one_process_writes(tmp_path):
    one = simulate(star(), out=tmp_path / "one")
    two = simulate(divided(star(), 2), out=tmp_path / "two", make_shard_group=Threads)
    assert told(two.path) == told(one.path)


class Wrecker(Poisoner):
    """A poisoner from outside that sends large noise."""

    def gradient(self, sent, push):
        noise = push.generator("wrecker").normal(0.0, 100.0, sent.items.shape).astype(np.float32)
        return ModelDelta(np.arange(len(noise), dtype=np.int32), noise, np.zeros_like(sent.shared))


def utility(merge, path):
    """Return how good recommendations are after ten rounds with a fifth of wreckers."""
    scenario = star() | {"dataset": {**tiny()["dataset"], "users": 40, "interactions": 700}}
    attackers = [{"name": "wrecker", "number": 8, "targets": [7], "boost": 100.0}]
    protocol = {"name": "fedavg", "rounds": 20, "merge": merge}
    run = simulate(scenario | {"protocol": protocol, "attackers": attackers}, out=path)
    return run.summary["utility"]["hr@5"]


@pytest.mark.slow
def test_it_keeps_noise_out_that_wrecks_the_mean(tmp_path):
    trusting = {"name": "fltrust", "root": {"users": 8}}
    with temporarily_registered(POISONERS, {"wrecker": Wrecker}):
        plain, trusted = (utility(merge, tmp_path / str(n)) for n, merge in enumerate(["mean", trusting]))
    assert trusted > plain + 0.1


def test_without_a_number_five_users_are_drawn_by_the_seed():
    train = prepare(load_scenario(star())).components.split.train
    one, other = (PublicUsers.choose(RootDataOptions(), train, seed, "here") for seed in (5, 6))
    assert len(one) == len(other) == 5
    assert one.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ({"users": 13}, "only 12 of 12 users have a public training item"),
        ({"users": [3, 12]}, "found the public user 12 in root.users; expected numbers from 0 to 11"),
        ({"users": 2, "items": [400]}, "only 0 of 12 users have a public training item"),
        ({"users": [1], "items": [400]}, "the public user 1 has no public training item"),
        ({"users": []}, "root.users"),
        ({"users": -1}, "root.users"),
        ({"users": 0}, "root.users"),
    ],
)
def test_public_data_that_do_not_exist_are_refused(root, message):
    with pytest.raises(GossipRecError, match=message):
        prepare(load_scenario(star(root)))


def test_it_is_refused_where_nobody_has_public_data():
    policy = {"name": "robust-merge", "rule": "fltrust"}
    with pytest.raises(GossipRecError, match="computes on public data of a coordinator"):
        load_scenario(tiny(policies=[policy]))
    with pytest.raises(GossipRecError, match="set user_table to 'own'"):
        prepare(load_scenario(star(user_table="averaged")))


@pytest.fixture
def rule_of_the_page():
    """Register the rule that docs/aggregators.md links to, which computes on public data."""
    page = Path(__file__).parents[2] / "docs" / "aggregators.md"
    (name,) = re.findall(r"\]\((\S+/keep_if_better\.py)\)", page.read_text())
    code = (page.parent / name).read_text()
    try:
        exec(
            compile(code.replace(FUTURE, ""), "page", "exec", dont_inherit=True),
            found := {"__name__": "acme"},
        )
        yield found["KeepIfBetter"]
    finally:
        AGGREGATORS._members.pop("keep-if-better", None)


def test_the_rule_of_the_page_keeps_the_contract(rule_of_the_page):
    check_aggregator(rule_of_the_page)


@pytest.mark.usefixtures("rule_of_the_page")
def test_a_rule_from_outside_computes_on_copies_and_reports(tmp_path):
    scenario = star() | {"protocol": {"name": "fedavg", "rounds": 4, "merge": "keep-if-better"}}
    run = simulate(scenario, out=tmp_path / "run")

    losses = run.findings["value"].astype(float)[1:]
    assert len(losses) == 3
    assert (np.diff(losses) <= 0).all()
    (kept,) = (found for found in open_run(run.path).summary["findings"])
    assert (kept["attack"], kept["measure"], kept["value"]) == ("keep-if-better", "root_loss", losses[-1])
