"""Membership inference on candidates: how they are drawn, what attacks find, what they refuse, and what is reported."""

import json
import math

import numpy as np
import pytest

from gossiprec.adversaries.attacks import CANDIDATE_MEASURES, ItemScores
from gossiprec.adversaries.attacks.candidates import draw_candidates, membership_of
from gossiprec.adversaries.attacks.membership import judge_moves
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import purpose_id, uniforms
from gossiprec.emulation import simulate
from gossiprec.emulation.scoring.attack_results import AttackResults
from gossiprec.emulation.scoring.judges import Truth
from tests.emulation.test_attack_record import drawn_split
from tests.emulation.tiny_runs import tiny

FEDAVG = {"name": "fedavg", "rounds": 15}
UPDATES = {**FEDAVG, "client_model": "none"}
COORDINATOR = {"who": "coordinator"}
ATTACKS = {
    "loss-mia": {},
    "update-mia": {},
    "imia": {"repeats": 2},
    "lira": {"models": 2, "rounds": 10, "known": {"fraction": 0.5}},
    "shadow-mia": {"models": 2, "rounds": 10, "known": {"fraction": 0.5}},
}


def sets(*parts):
    return Ragged.from_parts([np.array(part, np.int32) for part in parts])


@pytest.mark.parametrize("non_members", ["popularity", "uniform", "held-out"])
def test_candidates_are_training_items_and_equally_many_others(non_members):
    train, held_out = sets([1, 4, 7], [0], []), sets([2, 3], [5, 6], [9])
    found = draw_candidates(train, held_out, 10, 2, non_members, seed=3)

    is_member = membership_of(train, found)
    assert found.sizes.tolist() == [4, 2, 0]
    for user in range(2):
        own = is_member[found.offsets[user] : found.offsets[user + 1]]
        assert own.sum() == len(own) / 2
        assert (np.diff(found[user]) > 0).all()
    if non_members == "held-out":
        assert set(found.values[~is_member].tolist()) <= {2, 3, 5, 6}
    assert (
        found.values.tolist() == draw_candidates(train, held_out, 10, 2, non_members, seed=3).values.tolist()
    )


def drawn_sets(weights):
    """Return 20 items of 80 users each, drawn by weights."""
    draw, n = np.random.default_rng(2), len(weights)
    chosen = [np.sort(draw.choice(n, 20, replace=False, p=weights / weights.sum())) for _ in range(80)]
    return Ragged.from_parts([items.astype(np.int32) for items in chosen])


def test_exactly_as_many_other_users_have_a_counterpart():
    train = drawn_sets(1.0 / np.arange(1, 201))
    found = draw_candidates(train, train, 200, 10, "popularity", seed=1)
    is_member = membership_of(train, found)
    others = np.bincount(train.values, minlength=200)[found.values] - is_member
    for user in range(len(train)):
        own = slice(*found.offsets[user : user + 2])
        assert sorted(others[own][is_member[own]]) == sorted(others[own][~is_member[own]])
    assert (found.sizes == 20).mean() > 0.8, "other training items are drawn in place of those without one"


def test_training_items_without_a_counterpart_are_no_candidates():
    train = sets([0, 1, 2], [0, 3], [0, 4])  # no user is without item 0
    found = draw_candidates(train, train, 6, 5, "popularity", seed=1)
    assert [0 in found[user] for user in range(3)] == [False] * 3
    assert found.sizes.tolist() == [2, 2, 2]  # no other user has the others, and no user has 5


def test_a_user_with_all_items_has_no_candidates():
    assert draw_candidates(sets([0, 1], [0]), sets([], []), 2, 5, "uniform", 1).sizes.tolist() == [0, 2]


def test_items_that_move_furthest_give_the_direction():
    user = np.array([0.6, -0.8])
    moves = np.outer([1.0, 0.9, -0.2, 0.0], user)
    direction, along = judge_moves(moves)

    assert direction == pytest.approx(user, abs=1e-6)
    assert along == pytest.approx(np.array([1.0, 0.9, -0.2, 0.0]) / np.sqrt(1 + 0.81 + 0.04), abs=1e-6)
    assert not judge_moves(np.zeros((3, 2)))[1].any()


FEW_OF_MANY = {
    "name": "synthetic", "users": 12, "items": 200, "interactions": 150, "communities": 3,
    "split": {"name": "leave_last_k", "test": 2, "validation": 1},
}  # fmt: skip
"""Most items are not even sampled."""


GOSSIP = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 15}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "policies", "names"),
    [
        (FEDAVG, [], (*ATTACKS,)),
        (FEDAVG, [{"name": "share-less", "tau": 0.0}], ("loss-mia", "update-mia", "lira")),
        (UPDATES, [], (*ATTACKS,)),
        (GOSSIP, [], ("loss-mia", "update-mia")),
    ],
    ids=["models", "hidden-rows", "updates", "gossip"],
)
@pytest.mark.full
def test_a_model_that_memorises_gives_its_items_away(protocol, policies, names, tmp_path):
    who = COORDINATOR if protocol["name"] == "fedavg" else {"who": "single", "nodes": [0, 5]}
    batches = {"learning_rate": 0.1, "batch_size": 8}
    if protocol is UPDATES:  # of full batches a step is the mean gradient of all samples, and must be longer
        batches = {"learning_rate": 1.0, "batch_size": "full"}
    run = simulate(
        tiny(
            dataset=FEW_OF_MANY,
            protocol=protocol,
            policies=policies,
            executor={"name": "fused"},
            training={**batches, "local_epochs": 13, "optimizer": "sgd"},
            observers=[{"name": name, "pairs": 20, **ATTACKS[name], **who} for name in names],
        ),
        out=tmp_path / "run",
    )
    found = {(row["attack"], row["measure"]): row["value"] for row in run.summary["findings"]}

    assert min(found[name, "item_auc"] for name in names) > 0.8, {n: found[n, "item_auc"] for n in names}
    for name in names:
        assert found[name, "item_auc_low"] <= found[name, "item_auc"] <= found[name, "item_auc_high"]
        assert found[name, "item_members"] == pytest.approx(0.5, abs=0.02)
        assert {measure for attack, measure in found if attack == name} == {*CANDIDATE_MEASURES}
    observer = "coordinator" if who is COORDINATOR else "single-2-nodes"
    assert f"item_auc[{names[0]}/{observer}/k=10]" in set(run.positions["measure"].tolist())


def membership_run(out, names, **sections):
    """Return the findings of the coordinator's attacks on a run, by attack and measure."""
    run = simulate(
        tiny(
            dataset=FEW_OF_MANY,
            observers=[{"name": name, "pairs": 20, **ATTACKS[name], **COORDINATOR} for name in names],
            **sections,
        ),
        out=out,
    )
    return {(row["attack"], row["measure"]): row["value"] for row in run.summary["findings"]}


SHORT = {"learning_rate": 0.1, "local_epochs": 2, "optimizer": "sgd", "batch_size": 8}


@pytest.mark.slow
def test_repeated_updates_sample_other_items_as_rarely_as_the_victim(tmp_path):
    found = membership_run(
        tmp_path / "run", ["imia"], protocol={"name": "fedavg", "rounds": 1}, training=SHORT
    )
    assert found["imia", "item_auc"] > 0.9, "0.80 if the candidates are the only other items"


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, "inf"])
@pytest.mark.full
def test_no_attack_is_above_the_bound_of_its_epsilon(epsilon, tmp_path):
    delta = 1e-6
    found = membership_run(
        tmp_path / "run",
        ATTACKS,
        protocol={"name": "fedavg", "rounds": 6},
        training=SHORT,
        policies=[{"name": "dp-sgd", "epsilon": epsilon, "delta": delta}],
    )
    # TPR <= e^eps FPR + delta (Kairouz et al., "The composition theorem for differential privacy") for one sample; an
    # item comes with its negatives, so its own bound is looser
    bound = (math.e - 1 + 2 * delta) / (math.e + 1)
    above = {name for name in ATTACKS if found[name, "item_advantage"] > bound}
    assert above == (set() if epsilon == 1 else {"update-mia", "imia"})


def scored(split, scores_of, victims, seed=0):
    """Return the findings of candidates with drawn scores, the ROC curve, and their victims and items."""
    pairs = draw_candidates(split.train, split.test, split.n_items, 20, "uniform", 1)
    owners = pairs.row_of_each_value
    own = np.isin(owners, victims)
    truth = membership_of(split.train, pairs)[own]
    found = ItemScores(
        owners[own], pairs.values[own], scores_of(truth), {"observer": "hub"}, 5, are_candidates=True
    )
    rows = AttackResults(Truth(split, seed=seed)).note([("own", found)], time=1.0, round=1)
    curve = {row["labels"]["fpr"]: row["value"] for row in rows if row["measure"] == "item_roc"}
    found_rows = {row["measure"]: row["value"] for row in rows if row["measure"] != "item_roc"}
    return found_rows, curve, (found.victims, found.items)


@pytest.mark.slow
@pytest.mark.full
def test_random_scores_are_at_chance_within_their_intervals():
    split, inside = drawn_split(), []
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=1000)
        found, _, _ = scored(
            split, lambda truth, noise=noise: noise[: len(truth)], np.arange(split.n_users), seed
        )
        inside.append(
            [found[f"{unit}_auc_low"] < 0.5 < found[f"{unit}_auc_high"] for unit in ("item", "user")]
        )
    assert (np.mean(inside, axis=0) >= 0.75).all(), "binomial: 95 % of 20, less four deviations"


def test_equal_scores_are_at_chance():
    split = drawn_split()
    found, curve, _ = scored(split, lambda truth: np.zeros(len(truth)), np.arange(split.n_users))
    assert (found["item_auc_low"], found["item_auc_high"], found["item_advantage"]) == (0.5, 0.5, 0.0)
    assert (found["user_auc"], found["user_advantage"]) == (0.5, 0.0)
    assert all(tpr == pytest.approx(fpr) for fpr, tpr in curve.items())


def test_results_by_brute_force():
    split = drawn_split()
    draw = np.random.default_rng(4)
    scores, truth = [], []

    def noisy(is_member):
        scores[:], truth[:] = is_member + draw.normal(size=len(is_member)), is_member
        return np.array(scores)

    found, curve, (victims, items) = scored(split, noisy, np.arange(split.n_users))
    members = np.array([s for s, t in zip(scores, truth, strict=True) if t])
    others = np.array([s for s, t in zip(scores, truth, strict=True) if not t])
    thresholds = [np.inf, *scores]
    rates = [((others >= t).mean(), (members >= t).mean()) for t in thresholds]

    assert found["item_auc"] == pytest.approx((members[:, None] > others).mean())
    assert found["item_advantage"] == pytest.approx(max(tpr - fpr for fpr, tpr in rates))
    for fpr, tpr in curve.items():
        assert max(t for f, t in rates if f <= fpr) <= tpr + 1e-9
        assert tpr <= min((t for f, t in rates if f >= fpr), default=1.0) + 1e-9
    assert 0 <= found["item_auc_low"] < found["item_auc"] < found["item_auc_high"] <= 1

    pairs, is_own = np.array(scores), np.array(truth)
    others = np.bincount(split.train.values, minlength=split.n_items)[items] - is_own
    at_random = uniforms(0, items, victims, purpose_id("membership-sets"))
    own, other = [], []
    for victim in np.unique(victims):
        trained, free = (
            sorted(
                (others[k], at_random[k], k) for k in np.flatnonzero((victims == victim) & (is_own == kind))
            )
            for kind in (True, False)
        )
        matched = []
        for n, _, i in trained:
            j = next((j for m, _, j in free if m == n and j not in [taken for _, taken in matched]), None)
            matched += [] if j is None else [(i, j)]
        if matched:
            own.append(np.mean([pairs[i] for i, _ in matched]))
            other.append(np.mean([pairs[j] for _, j in matched]))
    own, other = np.array(own), np.array(other)
    assert len(own) > 1
    assert found["user_auc"] == pytest.approx((own[:, None] > other).mean())
    assert found["user_auc"] > found["item_auc"], "the items of a user together say more than each"
    assert found["user_auc_low"] <= found["user_auc"] <= found["user_auc_high"] <= 1


@pytest.mark.parametrize(
    ("observer", "sections", "words"),
    [
        ({"who": "coordinator"}, {}, "who: coordinator requires a protocol with a coordinator"),
        ({"who": "single", "victims": [99]}, {}, "victims names user 99; expected up to 11"),
        ({"who": "coalition", "members": [1], "nodes": [0]}, {}, "nodes belongs to who: single, found who: coalition"),
        ({"who": "coalition", "members": [1], "victims": [1]}, {}, "found no victim with a training item and an item"),
        (
            {"who": "single", "non_members": "held-out"},
            {"dataset": {"name": "synthetic", "users": 12, "items": 40, "interactions": 150, "communities": 3,
                         "split": {"name": "leave_last_k", "test": 0, "validation": 0}},
             "evaluate": {"every": 2, "metrics": []}},
            r"found no victim .*\(non_members: held-out\)",
        ),
        ({"who": "single"}, {"model": {"name": "mult-vae"}}, "mult-vae has none; use update-mia"),
    ],
)  # fmt: skip
def test_bad_options_are_refused(observer, sections, words, tmp_path):
    with pytest.raises(ScenarioError, match=words):
        simulate(tiny(observers=[{"name": "loss-mia", **observer}], **sections), out=tmp_path / "run")


def test_groups_tables_and_reports_have_the_results(tmp_path):
    from gossiprec.cli.main import exit_code
    from gossiprec.cli.summary_text import finding_tables

    groups = {"every": 2, "metrics": ["hr@5"], "groups": [{"by": "activity", "parts": 2}]}
    run = simulate(
        tiny(
            protocol={"name": "fedavg", "rounds": 4},
            evaluate=groups,
            observers=[{"name": "loss-mia", **COORDINATOR}],
        ),
        out=tmp_path / "run",
    )
    findings = run.summary["findings"]
    assert {row["labels"]["activity"] for row in findings if row["measure"] == "group_item_auc"} == {"1", "2"}
    headings = {column.header for table in finding_tables(findings) for column in table.columns}
    assert "item\nauc" in headings
    assert not {heading for heading in headings if "roc" in str(heading) or "low" in str(heading)}
    assert exit_code(["report", str(run.path), "--out", str(tmp_path / "page.html")]) == 0
    assert "ROC of membership inference" in (tmp_path / "page.html").read_text()
    assert json.dumps({"fpr": 0.01, "k": 10, "observer": "coordinator"}) in set(
        run.findings["labels"].tolist()
    )


@pytest.mark.parametrize(
    ("observer", "words"),
    [
        (
            {"who": "single"},
            "found who: single; expected coordinator or coalition, because reference models need",
        ),
        ({"who": "coalition", "members": [1, 2], "known": [3]}, "known belongs to who: coordinator"),
        ({"who": "coordinator", "known": [99]}, "known names user 99; expected up to 11"),
        ({"who": "coordinator", "models": 3}, "models.*multiple of 2"),
        (
            {"who": "coordinator", "known": [4], "models": 10**9},
            r"found models: 1000000000, but the items of the 1 known users .* halved in only \d+ ways",
        ),
    ],
)
def test_bad_options_of_reference_models_are_refused(observer, words, tmp_path):
    with pytest.raises(ScenarioError, match=words):
        simulate(
            tiny(protocol={"name": "fedavg", "rounds": 2}, observers=[{"name": "lira", **observer}]),
            out=tmp_path / "r",
        )


def test_known_users_are_no_victims(tmp_path):
    observers = [
        {"name": "shadow-mia", "who": "coordinator", "known": [0, 1, 2, 3, 7], "models": 2, "rounds": 1}
    ]
    run = simulate(tiny(protocol={"name": "fedavg", "rounds": 2}, observers=observers), out=tmp_path / "run")
    of_victims = run.positions["measure"] == "item_auc[shadow-mia/coordinator/k=10]"
    assert set(run.positions["node"][of_victims].tolist()) == {4, 5, 6, 8, 9, 10, 11}
