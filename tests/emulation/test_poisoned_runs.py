"""Runs with poisoners: they take part like clients, push what they wrote, and nobody counts them as users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml

from gossiprec.adversaries.poisoners import POISONERS, Poisoner
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions
from gossiprec.base.ragged import Ragged
from gossiprec.cli.main import exit_code
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.compute.waves import DeliveryHook
from gossiprec.emulation import estimate_run, prepare, resume, simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.assembly.poisoners import poisoner_context
from gossiprec.emulation.run.run_replay import replay
from gossiprec.scenario import load_scenario
from gossiprec.testing import temporarily_registered
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, carried_out, final_models, tiny
from tests.slow import slow_except_first

N, K = 12, 2
TARGETS = [7, 31]
NCF = {"name": "ncf", "dim": 4, "hidden": [6, 3], "init_std": 0.1}
SHARED = 6 * 8 + 6 + 3 * 6 + 3 + 3 + 1
SGD = {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": "full"}
STEPS = 3
"""Enough steps that make users hard: with the 30 of the paper they took half the time of a run."""
ATTACKED = {"every": 2, "metrics": ["er@5"]}
AHUM = {"name": "a-hum", "number": K, "targets": TARGETS, "steps": STEPS}
SLOW = {"latency": {"law": "exponential", "mean": 0.6}, "loss": 0.05, "duplication": 0.3}
STAR = {"name": "fedavg", "rounds": 6, "participation": 0.75, "client_model": "none", "merge": "touched-mean"}
SLICED = {"name": "fedavg", "rounds": 3, "slice": 5, "client_model": "none", "merge": "sum"}
MODELS = {"name": "fedavg", "rounds": 6, "participation": 0.75, "merge": "median"}
GOSSIP = tiny()["protocol"]
COALITION = {**SINGLE, "who": "coalition", "fraction": 0.5}
MEMBERS = {"name": "entropy-mia", "community_size": 3}
PERSONAL = {"name": "pers-gossip", "view": {"size": 2}, "wakes": 5}
POISONED = {"model": NCF, "training": SGD, "attackers": [AHUM], "observers": []}
RUNS = {
    "updates": {"protocol": STAR, "observers": [COORDINATOR]},
    "updates-late": {"protocol": {**STAR, "round": {"deadline": 1.0}}, "network": SLOW},
    "slices": {"protocol": SLICED, "attackers": [{**AHUM, "scale": "matched", "boost": 3.0, "start": 2}]},
    "recommender": {
        "protocol": SLICED,
        "recommender": {"name": "cl4fedrec", "synthetic_items": 5, "synthetic_users": 4},
        "attackers": [{**AHUM, "scale": "matched"}],
    },
    "models": {"protocol": MODELS, "observers": [COORDINATOR]},
    "gossip": {"protocol": GOSSIP, "observers": [SINGLE, COALITION]},
    "gossip-slow": {"protocol": GOSSIP, "network": SLOW, "observers": [SINGLE]},
    "gossip-robust": {
        "protocol": GOSSIP,
        "policies": [{"name": "robust-merge", "rule": "median", "buffer": 4}],
        "observers": [SINGLE],
    },
    "memory": {
        "protocol": {**SLICED, "rounds": 4},
        "attackers": [
            {"name": "fedrecattack", "number": K, "targets": TARGETS, "knowledge": 0.3, "items": 4}
        ],
    },
    "gossip-memory": {
        "protocol": GOSSIP,
        "network": SLOW,
        "attackers": [
            {"name": "pieck", "number": K, "targets": TARGETS, "popular": 5, "changes": 9, "boost": 9}
        ],
    },
    "personal": {
        "protocol": PERSONAL,
        "observers": [SINGLE],
        "dataset": {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}},
    },
}


def poisoned(run="updates", **more):
    """Return a tiny scenario with two poisoners among its fourteen nodes."""
    return tiny(**{**POISONED, **RUNS[run], **more})


def often_poisoned(run, **more):
    return often(**{**POISONED, **RUNS[run], **more})


class Push_(Poisoner):  # noqa: N801
    """Has a gradient that is easily told: -1 in each number of the targets, 2 in the shared weights."""

    def gradient(self, sent, push):
        rows = np.full((len(self.context.targets), sent.items.shape[1]), -1.0, np.float32)
        return self.change(rows, np.full_like(sent.shared, 2.0), push)

    def change(self, rows, shared, push):
        from gossiprec.rules.aggregators import ModelDelta

        return ModelDelta(self.context.targets, rows, shared)


@pytest.fixture
def plain():
    """Register a poisoner that pushes each number of the targets up by the learning rate, 0.05."""
    with temporarily_registered(POISONERS, {"push": Push_}):
        yield {"name": "push", "number": K, "targets": TARGETS}


# --- the federated loop


@pytest.mark.slow
def test_poisoners_add_what_the_published_code_adds():
    """One step of plain SGD and the sum of all updates: each poisoner adds -learning rate times its gradient."""
    star = {**STAR, "rounds": 2, "merge": "sum", "participation": 1.0}
    with_, without = (carried_out(poisoned(protocol=star, attackers=a)) for a in ([AHUM], []))
    found, clean = (run.executor.store.load(run.planner.current_rows[-1:])[0] for run in (with_, without))
    layout, work = with_.executor.store.layout, with_.executor.work
    first = MessagePayload.of(work.model.initial_rows(layout, 1, 5)[0], layout, hides_user=True)
    world = poisoner_context(
        work.model, layout, work.feed.restricted_to(np.zeros(0, np.int64)), 4, np.array(TARGETS, np.int32)
    )
    kind = POISONERS["a-hum"]
    due = np.zeros(layout.row_size, np.float64)
    for node in (N, N + 1):
        gradient = kind(kind.Options(steps=STEPS), world).gradient(
            first, PushContext(5, node, 0, np.zeros(0, np.int32))
        )
        due[layout.items].reshape(40, -1)[gradient.items] -= 0.05 * gradient.rows
        due[layout.shared] -= 0.05 * gradient.shared

    np.testing.assert_allclose(found - clean, due, rtol=0, atol=1e-6)
    assert np.abs(due).max() > 1e-3


@pytest.mark.slow
def test_a_message_is_as_large_as_what_it_changes(tmp_path):
    run = simulate(poisoned(attackers=[{**AHUM, "start": 3}], observers=[]), out=tmp_path / "run")
    message = run.events("message")
    sent = message["sender"] >= N
    of_poisoners = sent & (message["sender"] < N + K)
    early = message["time"] < 2.5  # rounds begin at times 1, 2, ... and are answered at once
    sizes = message["size_bytes"]

    assert set(sizes[of_poisoners & early].tolist()) == {4 * SHARED}
    assert set(sizes[of_poisoners & ~early].tolist()) == {4 * (len(TARGETS) * (1 + 4) + SHARED)}
    assert set(message["sender"][sent].tolist()) == {N, N + 1, N + K}
    assert set(sizes[message["sender"] == N + K].tolist()) == {4 * (40 * 4 + SHARED)}


@pytest.mark.slow
def test_with_slices_a_poisoner_starts_with_an_epoch(tmp_path):
    run = simulate(poisoned("slices"), out=tmp_path / "run")
    message = run.events("message")
    for node in (N, N + 1):
        mine = message["sender"] == node
        small = 4 * SHARED
        assert [size > small for size in message["size_bytes"][mine].tolist()] == [False, True, True]


@pytest.mark.slow
def test_poisoners_are_asked_like_clients_and_train_nothing(tmp_path):
    rounds = {"protocol": {**STAR, "rounds": 30}, "evaluate": {"every": 15, "metrics": ["hr@5"]}}
    run = simulate(poisoned(observers=[], **rounds), out=tmp_path / "run")
    message, updates = run.events("message"), run.events("update")["node"]
    asked = np.bincount(message["receiver"][message["sender"] == N + K], minlength=N + K)

    assert (np.bincount(updates, minlength=N + K + 1)[:N] == asked[:N]).all()
    assert updates.max() < N
    assert asked.sum() == 30 * round(0.75 * (N + K))
    assert asked[N:].sum() == pytest.approx(30 * 0.75 * K, abs=12)
    assert (run.summary["nodes"], run.summary["poisoners"], run.summary["coordinator"]) == (N, K, N + K)


@pytest.mark.slow
def test_users_without_data_have_no_part_in_what_is_measured(tmp_path):
    run = simulate(
        poisoned(evaluate={"every": 2, "metrics": ["recall@5", "er@5"], "targets": "attacked"}, observers=[]),
        out=tmp_path / "run",
    )  # fmt: skip
    names = set(run.metrics["metric"].tolist())
    assert {"er@5", "er@5[7]", "er@5[31]", "recall@5"} <= names
    last = dict(zip(run.metrics["metric"], run.metrics["value"], strict=True))
    assert last["er@5"] == pytest.approx((last["er@5[7]"] + last["er@5[31]"]) / 2)
    split = prepare(load_scenario(poisoned())).components.split
    held = [set(split.train[u]) | set(split.validation[u]) | set(split.test[u]) for u in range(N)]
    for target in TARGETS:
        able = sum(target not in items for items in held)
        assert last[f"er@5[{target}]"] * able == pytest.approx(round(last[f"er@5[{target}]"] * able))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "name", "rate", "boost"),
    [
        ("updates", "a-hum", 0.05, 1.0),
        ("updates", "a-ra", 0.05, 1.0),
        ("updates", "psmu", 0.05, 1.0),
        ("models", "a-hum", 0.2, 5.0),  # a mean of sixteen models
    ],
)
@pytest.mark.cases(2)
def test_the_least_popular_item_reaches_everyone_with_poisoners_and_nobody_without(
    run, name, rate, boost, tmp_path
):
    sums = run == "updates"
    rounds = 15 if sums else 20
    rule = {"merge": "sum" if sums else "mean", "participation": 1.0, "rounds": rounds}
    default = {"name": name, "number": 4, "boost": boost}
    target = prepare(load_scenario(poisoned(attackers=[default]))).components.attackers[0].targets.tolist()
    run = poisoned(
        run, observers=[], training={**SGD, "learning_rate": rate}, protocol={**RUNS[run]["protocol"], **rule},
        evaluate={"every": rounds, "metrics": ["er@3"], "targets": target},
    )  # fmt: skip
    found = simulate({**run, "attackers": [default]}, out=tmp_path / "with").summary["utility"]["er@3"]
    assert found > 0.9
    if name == "a-hum":  # without poisoners all else of a run is the same for each of them
        without = simulate({**run, "attackers": []}, out=tmp_path / "without")
        assert without.summary["utility"]["er@3"] == 0.0


# --- the same bytes, however it is run


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Return a function that makes each run at most once, by its name, and returns it when it has ended."""
    runs = {}

    def simulated(name, scenario):
        if name not in runs:
            runs[name] = simulate(scenario, out=tmp_path_factory.mktemp("ended") / "run")
        return runs[name]

    return simulated


ONE_THREAD = {"name": "batched", "threads": 1}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.cases(3)
def test_threads_and_waves_change_no_byte(run, ended, tmp_path):
    whole = ended(run, often_poisoned(run, executor=ONE_THREAD))
    two = {"name": "batched", "threads": 2, "wave_size": 3}
    assert outcome(simulate(often_poisoned(run, executor=two), out=tmp_path / "two").path) == outcome(
        whole.path
    )


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.cases(2)
def test_a_run_goes_on_where_it_was(run, ended, tmp_path):
    scenario = often_poisoned(run, executor=ONE_THREAD)
    broken = ended_early(tmp_path / "broken", scenario, 3)
    assert outcome(resume(broken.path).path) == outcome(ended(run, scenario).path)


def test_pushes_wait_for_earlier_ones_only_if_the_poisoner_remembers_them():
    for run, remembers in {"gossip-memory": True, "memory": True, "gossip": False}.items():
        in_order = prepare(load_scenario(poisoned(run))).components.outgoing.in_order
        assert in_order[:N].tolist() == [False] * N
        assert in_order[N : N + K].tolist() == [remembers] * K


@pytest.mark.slow
def test_a_poisoned_run_is_replayed(tmp_path):
    run = simulate(poisoned(observers=[]), out=tmp_path / "run")
    assert replay(run.path).confirmed


@pytest.mark.slow
@pytest.mark.parametrize("run", ["gossip", "models"])
def test_executors_agree(run):
    gmf = {"model": {"name": "gmf", "dim": 4, "init_std": 0.1}}
    one, *others = (
        final_models(carried_out(poisoned(run, **gmf, executor={"name": name})))
        for name in ("reference", "batched", "fused")
    )
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_without_poisoners_nothing_is_said_of_them(tmp_path):
    short = tiny(protocol={**GOSSIP, "wakes": 2})
    plain_run = simulate(short, out=tmp_path / "plain")
    none = simulate({**short, "attackers": []}, out=tmp_path / "none")
    assert outcome(plain_run.path) == outcome(none.path)
    assert "poisoners" not in plain_run.summary


@pytest.mark.slow
@pytest.mark.parametrize("none", [{"fraction": 0}, {"number": 0}])
@pytest.mark.parametrize("run", ["updates", "gossip"])
@pytest.mark.cases(1)
def test_no_poisoners_are_the_baseline_of_some(run, none, ended, tmp_path):
    entry = {"name": "a-hum", **none, "targets": TARGETS}
    evaluate = {"every": 1, "metrics": ["hr@5", "er@5"]}
    baseline = poisoned(run, attackers=[entry], evaluate={**evaluate, "targets": "attacked"})
    plain_run = {**baseline, "attackers": [], "evaluate": {**evaluate, "targets": TARGETS}}
    found, other = simulate(baseline, out=tmp_path / "none"), ended(f"{run} without attackers", plain_run)
    assert found.manifest["log_digest"] == other.manifest["log_digest"]
    assert {name: found.summary["utility"][name] for name in ("hr@5", "er@5")} == other.summary["utility"]
    assert found.summary["poisoners"] == 0
    assert estimate_run(load_scenario(baseline)).sizes["poisoners"] == 0


# --- gossip, and clients with models


class Looking(DeliveryHook):
    """Notes what is delivered, by sender."""

    def __init__(self, deliveries):
        self._deliveries, self.seen = deliveries, []

    def observe(self, rows, program, tasks):
        for task in tasks:
            for k in range(program.merge_offsets[task], program.merge_offsets[task + 1]):
                sender = int(self._deliveries.sender[program.merge_message[k]])
                self.seen.append((sender, int(program.merge_message[k]), rows[program.merge_row[k]].copy()))

    def observe_pools(self, *_):
        pass


@pytest.mark.parametrize("run", ["gossip", "models"])
def test_a_poisoner_pushes_its_version_and_what_it_adds(run, plain):
    """Its own version stays without: it adopts or merges what it gets, and adds to what leaves alone."""
    prepared = prepare(load_scenario(poisoned(run, attackers=[plain], observers=[])))
    looking = Looking(prepared.deliveries)
    prepared.meters.append(looking)
    store, found = prepared.executor.store, []
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        last = {sender: row for sender, _, row in looking.seen}
        found += [
            (store.load(prepared.planner.current_rows[[n]])[0], last[n]) for n in (N, N + 1) if n in last
        ]
    layout = store.layout
    added = [sent - own for own, sent in found]
    exact = [row for row in added if np.allclose(row[layout.shared], -0.1, atol=1e-5)]
    assert exact  # of those who have received nothing since
    for row in exact:
        items = row[layout.items].reshape(40, -1)
        np.testing.assert_allclose(items[TARGETS], 0.05, atol=1e-5)
        assert not np.delete(items, TARGETS, axis=0).any()
        assert not row[layout.users].any()
    start = prepared.executor.work.model.initial_own(layout, N + K, 5)[0]
    for node in (N, N + 1):
        np.testing.assert_array_equal(
            store.load(prepared.planner.current_rows[[node]])[0, layout.users], start[node]
        )


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["reference", "batched", "fused"])
def test_observers_meet_poisoners_and_take_them_for_nobody(executor, tmp_path):
    scenario = poisoned(
        "gossip", model={"name": "gmf", "dim": 4}, executor={"name": executor},
        observers=[{**SINGLE, "momentum": [0.0, 0.9]}, COALITION, {**MEMBERS, "who": "single"}],
    )  # fmt: skip
    prepared = carried_out(scenario)
    for attack in prepared.attacks:
        assert max(members.max(initial=0) for members in [attack.nodes, *attack.pools]) < N
        for ranking in attack.rankings():
            assert ranking.scores.shape == (len(ranking.adversaries), N)
            assert np.isfinite(ranking.scores[~np.isnan(ranking.scores)]).all()
    run = simulate(scenario, out=tmp_path / "run")
    assert set(run.adversaries[next(iter(run.adversaries))][0].tolist()) <= set(range(N))


@pytest.mark.parametrize(
    "observer",
    slow_except_first([COORDINATOR, {"name": "aia", "community_size": 3, "models": 4, "epochs": 2}]),
)
def test_a_coordinator_that_observes_ranks_users_alone(observer):
    protocol = {**MODELS, "merge": "mean", "participation": 1.0}
    prepared = carried_out(poisoned("models", protocol=protocol, observers=[observer]))
    for ranking in prepared.attacks[0].rankings():
        assert ranking.scores.shape[1] == N


def test_policies_and_churn_are_for_users_alone():
    away = {"law": "exponential", "mean": 1.0}
    prepared = prepare(load_scenario(poisoned(
        "models", policies=[{"name": "share-less", "tau": 0.1}], churn={"sessions": {"online": away, "offline": away}},
    )))  # fmt: skip
    assert prepared.components.policies[0].nodes.tolist() == list(range(N))
    assert not any(
        len(prepared.components.protocol.availability.changes[node]) for node in range(N, N + K + 1)
    )


def test_a_poisoner_counts_as_an_average_client():
    prepared = prepare(load_scenario(poisoned("models", protocol={**MODELS, "merge": "samples"})))
    sizes = prepared.components.split.train.sizes
    assert prepared.components.merge_weights.tolist() == [*sizes.tolist(), *[round(sizes.mean())] * K, 0]


def test_several_entries_are_numbered_one_after_the_other():
    entries = [AHUM, {"name": "a-ra", "fraction": 0.25, "targets": [3]}]
    prepared = prepare(load_scenario(poisoned(attackers=entries)))
    assert [entry.nodes.tolist() for entry in prepared.components.attackers] == [[12, 13], [14, 15, 16]]
    assert prepared.components.protocol.n_users == 17


def test_the_default_target_is_the_least_popular_of_training_and_test():
    scenario = load_scenario(poisoned(attackers=[{"name": "a-ra", "number": 1}]))
    split = load_data(scenario)

    def without(held, *items):
        return [np.setdiff1d(held[u], items).astype(np.int32) for u in range(N)]

    tested = [
        np.union1d([5], items).astype(np.int32) for items in without(split.test, 9)
    ]  # 5 is nobody's to train on
    changed = replace(
        split, train=Ragged.from_parts(without(split.train, 5, 9)), test=Ragged.from_parts(tested),
        validation=Ragged.from_parts(without(split.validation, 5, 9)),
    )  # fmt: skip
    prepared = prepare(scenario, load=lambda _: changed)
    counts = [sum(i in changed.train[u] or i in changed.test[u] for u in range(N)) for i in range(40)]
    least = [i for i in range(40) if counts[i] == 0]
    assert 9 in least
    assert 5 not in least
    assert prepared.components.attackers[0].targets.tolist() == least[:1]
    all_of_them = {"name": "a-ra", "number": 1, "targets": {"least_popular": len(least)}}
    more = load_scenario(poisoned(attackers=[all_of_them]))
    assert prepare(more, load=lambda _: changed).components.attackers[0].targets.tolist() == least


@pytest.mark.parametrize(
    "changes",
    [{}, {"protocol": {**STAR, "upload": "gradients"}, "training": {**SGD, "optimizer": "adam"}}],
    ids=["models", "gradients"],
)
def test_a_matched_message_changes_rows_as_an_average_client_does(changes):
    """One step of plain SGD on made-up items: what it changes of each is written out."""
    entry = {"attackers": [{**AHUM, "scale": "matched"}]}
    prepared = prepare(load_scenario(poisoned("models", **entry, **changes)))
    forging = prepared.seams.encoders[0]._forgeries[N]
    work = prepared.executor.work
    sent = MessagePayload.of(work.model.initial_rows(work.layout, 1, 5)[0], work.layout, hides_user=True)
    push = PushContext(5, N, 0, np.zeros(0, np.int32), round=1)
    norms = np.linalg.norm(forging.forge(sent, push).rows, axis=1)
    norms = norms[norms > 0]  # perceptrons may be deaf to an item

    draw = push.generator("made-up-client")
    items = draw.choice(40, round(prepared.components.split.train.sizes.mean()), replace=False)
    row = work.model.initial_rows(work.layout, 1, 5)[0]
    row[work.layout.users] = draw.normal(0, 0.01, 4).astype(np.float32)
    feed = work.feed.for_items(items)
    samples = feed.samples(0, update=0, negatives=4, seed=int(draw.integers(2**63)))
    import torch

    parts = {name: torch.tensor(part, requires_grad=True) for name, part in _tables(work.layout, row).items()}
    batch = {
        "user": torch.tensor([0]), "items": torch.tensor(samples["items"]).long(),
        "labels": torch.tensor(samples["labels"]), "weights": torch.ones(len(samples["items"])),
    }  # fmt: skip
    torch.autograd.backward(work.model.loss(work.layout.blocks_by_name(parts), batch))
    moved = 0.05 * np.linalg.norm(parts["items"].grad.numpy(), axis=1)
    assert np.median(norms) == pytest.approx(np.median(moved[moved > 0]), rel=1e-3)


def _tables(layout, row):
    import torch

    from gossiprec.compute.executors.tensors import table_views

    return {name: part.numpy() for name, part in table_views(layout, torch.from_numpy(row)).items()}


# --- what is refused


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"attackers": [{"name": "a-hum", "fraction": 0.05}]},
            "attackers.0.fraction: found 0.05, which gives no poisoner for 12 users; raise it to 0.084 or more, or set "
            "number: 1",
        ),
        ({"attackers": [{**AHUM, "targets": [40]}]}, "attackers.0.targets.0: found item 40, but item ids range"),
        ({"attackers": [{**AHUM, "targets": {"least_popular": 41}}]}, "found 41, but there are only 40 items"),
        ({"model": {"name": "mf", "loss": "bpr"}}, "attackers: a-hum trains items.*mf does not learn from"),
        ({"protocol": {**MODELS, "user_table": "averaged"}}, "attackers: a-hum has no user row"),
        (
            {"protocol": {**SLICED, "slice": 14, "merge": {"name": "krum", "byzantine": 1}}},
            r"protocol.merge: krum assumes at most 1 poisoners \(byzantine\) among the 14 models .* are 2.0 on average",
        ),
        ({"attackers": [{**AHUM, "targets": []}]}, r"attackers.0.targets: found \[\]; expected 1 or more entries; add"),
        (
            {"protocol": {**SLICED, "slice": 3}, "attackers": [{**AHUM, "number": 4}]},
            "attackers: found 4 poisoners, but a slice has 3 clients",
        ),
        ({"attackers": [{"name": "spattack", "number": 1, "targets": [3]}]}, "spattack lowers the quality of all"),
        (
            {"attackers": [{"name": "spattack", "number": 1}], "evaluate": {**ATTACKED, "targets": "attacked"}},
            "evaluate.targets: found attacked, but spattack has no targets",
        ),
        ({"attackers": [{**AHUM, "number": 12}]}, "found 12 poisoners for 12 users.*lower number or fraction"),
        (
            {"attackers": [{"name": "a-hum", "number": 1, "aim": "demote"}]},
            r"attackers.0.aim: found demote with targets {least_popular: 1}.*list their numbers in targets",
        ),
        *(
            (
                {"attackers": [{"name": "fedrecattack", "number": 1, "knowledge": fraction}]},
                rf"attackers.0.knowledge: found {fraction}",
            )
            for fraction in (0, 1)
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(changes, why):
    with pytest.raises(ScenarioError, match=why):
        prepare(load_scenario(poisoned(**changes)))


@pytest.mark.parametrize(
    ("targets", "aim"), [([3, 0], "promote"), ([0], "demote"), ({"least_popular": 14}, "promote")]
)
@pytest.mark.parametrize("protocol", [SLICED, GOSSIP], ids=["federation", "gossip"])
def test_a_target_that_all_users_have_is_refused(protocol, targets, aim, tmp_path, capsys):
    """By the command line, with one message; item 0 is in different parts of the split."""
    rows = [f"{u},{i},{(7 * u + i) % 5}" for u in range(N) for i in (0, 1 + u, 2 + u)]
    (tmp_path / "data.csv").write_text("\n".join(["user,item,time", *rows]))
    columns, split = ["user", "item", "time"], {"name": "leave_last_k", "test": 1, "validation": 1}
    dataset = {"name": "file", "path": str(tmp_path / "data.csv"), "columns": columns, "split": split}
    attackers = [{**AHUM, "targets": targets, "aim": aim}]
    run = poisoned(protocol=protocol, dataset=dataset, attackers=attackers)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    assert exit_code(["simulate", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run")]) == 2
    assert " ".join(capsys.readouterr().err.split()).split(" ... ")[-1] == (
        "error: attackers.0.targets: found item 0, which every one of the 12 users has, so that no user is "
        "recommended it; expected items that some user lacks; list others"
    )


class NotANumber(Push_):
    """Sends NaN in its third push."""

    Options = NoOptions

    def change(self, rows, shared, push):
        return super().change(rows * (np.nan if push.number == 2 else 1), shared, push)


def test_a_message_that_is_not_finite_is_told_by_node_and_round():
    with temporarily_registered(POISONERS, {"nan": NotANumber}):
        scenario = poisoned(attackers=[{"name": "nan", "number": 1}], protocol={**STAR, "participation": 1.0})
        with pytest.raises(
            ScenarioError, match="attackers: nan: the message of node 12 in round 3 contains NaN"
        ):
            carried_out(scenario)
