"""PerFedRec++ piece by piece, beside the same by hand; and whole runs of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.store.update import Update
from gossiprec.emulation import prepare, simulate
from gossiprec.federated import RECOMMENDERS, CoordinatorContext
from gossiprec.federated.perfedrec.coordinator import ClusterModels, ClusterOptions
from gossiprec.federated.user_vectors import add_pseudo_items
from gossiprec.models import MODELS, BlockRole
from gossiprec.models.base.parameter_blocks import ParameterBlock
from gossiprec.rules.aggregators import Inbox, ModelDelta
from gossiprec.rules.servers import ClientAnswers, RoundContext
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import Patient
from tests.emulation.test_resume import check
from tests.emulation.tiny_runs import carried_out, tiny
from tests.slow import slow_except_first

N_CLIENTS, N_ITEMS, DIM = 6, 7, 3
MF = MODELS["mf"](MODELS["mf"].Options(dim=DIM, loss="bpr"))
LAYOUT = MF.layout(N_ITEMS)
N_COLUMNS = N_ITEMS * DIM
CLUSTERS = {"number": 3, "first": 2, "every": 2}
PP = {"name": "perfedrec-pp", "clusters": CLUSTERS, "pretraining": {"sampled": 6}}
STAR = {
    "name": "fedavg", "rounds": 8, "participation": 0.5, "client_model": "none", "merge": "samples",
    "choose": "proportional", "pause": 1,
}  # fmt: skip
LDP = {"name": "ldp", "norm": "linf", "bound": 0.5, "noise": "laplace", "scale": 0.01, "of": "update"}


def personal(**sections):
    return tiny(
        **{
            "model": {"name": "lightgcn", "dim": 6},
            "training": {"batch_size": "full", "learning_rate": 0.05, "negatives": 1},
            "protocol": STAR,
            "recommender": PP,
            "executor": {"name": "batched"},
            "observers": [],
            "evaluate": {"every": 1, "metrics": ["recall@5"]},
            **sections,
        }
    )


def clustering(models="own", noise=0.0, **options):
    known = CoordinatorContext(MF, LAYOUT, np.zeros(N_ITEMS, np.int64), 1, 5, N_CLIENTS, None)
    return ClusterModels(
        known,
        ClusterOptions(**{"number": 2, "first": 1, "every": 3, **options}),
        models=models,
        table_noise=noise,
    )


def round_of(number):
    return RoundContext(5, number, N_CLIENTS, LAYOUT)


def answers(changes, users=None, weights=None):
    """Return what clients answered: of each the item it touched and by how much; and what they told of themselves."""
    clients = np.array(sorted(changes), np.int64)
    each = [
        ModelDelta(np.array([item], np.int32), np.full((1, DIM), by, np.float32), np.zeros(0, np.float32))
        for item, by in (changes[client] for client in clients.tolist())
    ]
    told = None if users is None else np.array([users[client] for client in clients.tolist()], np.float32)
    inbox = Inbox(
        np.zeros((len(clients), N_COLUMNS), np.float32),
        np.arange(len(clients)),
        np.ones(len(clients)) if weights is None else np.array(weights, float),
        deltas=each,
    )
    return ClientAnswers(clients, inbox, told)


LEFT, RIGHT = [-5.0, 0, 0], [5.0, 0, 0]
TOLD = {0: LEFT, 1: LEFT, 2: LEFT, 3: RIGHT, 4: RIGHT}


def clustered(models="own"):
    """Return clusters {0, 1, 2} and {3, 4}, made in round 1; nobody knows client 5."""
    made, start = clustering(models), np.zeros(N_COLUMNS, np.float32)
    made.step(start, answers({}), round_of(0))
    extras = made.step(start, answers(dict.fromkeys(TOLD, (0, 0.0)), TOLD), round_of(1))[1]
    assert extras["cluster_of"].tolist() == [0, 0, 0, 1, 1, -1]
    return made


def test_a_cluster_s_own_model_goes_by_its_members_weighted_changes():
    made = clustered()
    version = np.full(N_COLUMNS, 9.0, np.float32)
    got = answers({0: (2, 1.0), 1: (2, 4.0), 3: (6, 8.0), 5: (6, 100.0)}, weights=[1, 3, 2, 1])
    models = made.step(version, got, round_of(2))[1]["cluster_models"].reshape(2, N_ITEMS, DIM)
    assert models[0, 2].tolist() == [(1 * 1 + 3 * 4) / 4] * DIM
    assert models[1, 6].tolist() == [8.0] * DIM
    assert np.count_nonzero(models) == 2 * DIM
    again = made.step(version, answers({4: (6, 2.0)}), round_of(3))[1]["cluster_models"].reshape(
        2, N_ITEMS, DIM
    )
    assert again[1, 6].tolist() == [10.0] * DIM
    assert (again[0] == models[0]).all()  # no member has answered


def test_a_round_s_cluster_models_begin_with_what_was_published():
    made = clustered("round")
    first, second = np.full(N_COLUMNS, 3.0, np.float32), np.full(N_COLUMNS, 7.0, np.float32)
    made.step(first, answers({}), round_of(2))
    models = made.step(second, answers({0: (2, 1.0), 1: (2, 4.0)}), round_of(3))[1]["cluster_models"]
    expected = np.full((N_ITEMS, DIM), 3.0)
    expected[2] += 2.5
    np.testing.assert_allclose(models[0].reshape(N_ITEMS, DIM), expected)
    assert (models[1] == second).all()  # without members' answers the global one


@pytest.mark.parametrize("models", ["own", "round"])
def test_models_of_new_clusters_begin_with_those_that_their_members_had(models):
    made = clustered(models)
    version = np.arange(N_COLUMNS, dtype=np.float32)
    made._models[:] = np.array([[3.0], [5.0]])
    swapped = {client: RIGHT if row == LEFT else LEFT for client, row in TOLD.items()}
    swapped[5] = RIGHT
    extras = made.step(version, answers(dict.fromkeys(swapped, (0, 0.0)), swapped), round_of(4))[1]
    assert extras["cluster_of"].tolist() == [0, 0, 0, 1, 1, 0]  # of the first four clients one was in none
    of_members = [(3 * 3.0 + version) / 4, np.full(N_COLUMNS, 5.0)]
    np.testing.assert_allclose(extras["cluster_models"], of_members if models == "own" else [version] * 2)


def test_there_are_no_clusters_of_fewer_clients_than_clusters():
    made, start = clustering(), np.zeros(N_COLUMNS, np.float32)
    made.step(start, answers({0: (0, 0.0)}, {0: LEFT}), round_of(1))
    assert (made.groups == -1).all()
    assert made.report()["clusters"] == {"times": 0, "sizes": [], "unknown": 5}


def test_who_tells_nothing_is_in_no_cluster_and_keeps_what_it_told_before():
    made = clustered()
    nothing = {0: [np.nan] * 3, 5: [np.nan] * 3}
    made.step(np.zeros(N_COLUMNS, np.float32), answers({0: (0, 0.0), 5: (0, 0.0)}, nothing), round_of(4))
    assert made.groups.tolist() == [0, 0, 0, 1, 1, -1]


def test_clusters_are_made_in_the_rounds_that_are_named():
    options = ClusterOptions(first=4, every=3, last=10)
    assert [number for number in range(20) if options.is_due(number)] == [4, 7, 10]


def test_noise_on_the_table_is_the_mean_of_as_many_laplace_variables():
    made = clustering(noise=0.3)
    got = answers(dict.fromkeys(range(4), (0, 0.0)))
    drawn = np.concatenate(
        [made.step(np.zeros(N_COLUMNS, np.float32), got, round_of(number))[0] for number in range(10, 400)]
    )
    means = np.random.default_rng(8).laplace(0, 0.3, (len(drawn), 4)).mean(1)
    assert stats.ks_2samp(drawn, means).pvalue > 1e-3
    untouched = made.step(np.zeros(N_COLUMNS, np.float32), answers({}), round_of(3))[0]
    assert not untouched.any()  # nobody has answered


@pytest.mark.parametrize("local", [0.0, 0.25])
def test_a_mix_has_its_shares(local):
    kind = RECOMMENDERS["perfedrec"]
    made = kind(
        kind.Options(local_share=local, cluster_share=0.5, pseudo_items=0), MF, negatives=1, learning_rate=0.1
    )
    version, models = np.ones(4, np.float32), np.array([[3.0] * 4, [7.0] * 4], np.float32)
    extras = {"cluster_models": models, "cluster_of": np.array([1, -1, 0, 1], np.int32)}
    found = made.personal_models(np.array([3, 1, 2]), version, extras)
    assert found.versions[found.of][:, 0].tolist() == [4.0, 1.0, 2.0]
    assert found.local == local


def test_without_shares_of_its_own_everybody_recommends_by_the_global_model():
    kind = RECOMMENDERS["perfedrec"]
    made = kind(kind.Options(local_share=0, cluster_models="none"), MF, negatives=1, learning_rate=0.1)
    assert made.personal_models(np.array([0]), np.ones(4, np.float32), {}) is None


def test_weights_that_stay_with_clients_are_refused():
    kind = RECOMMENDERS["perfedrec"]
    made = kind(kind.Options(), MF, negatives=1, learning_rate=0.1)
    made.check(LAYOUT, full_batches=True)
    own = ParameterBlock("own", BlockRole.PRIVATE, (2,), LAYOUT.blocks[0].initial)
    with pytest.raises(ScenarioError, match="mf has private weights"):
        made.check(replace(LAYOUT, blocks=(*LAYOUT.blocks, own)), full_batches=True)


# --- whole runs


@pytest.mark.parametrize("policies", slow_except_first([[], [LDP]]))
def test_who_has_just_trained_adds_its_own_change_to_the_mix(policies):
    prepared = carried_out(personal(policies=policies), upto=6)
    store, planner, extras = prepared.executor.store, prepared.planner, prepared.seams.serving.extras
    users = np.arange(12)
    readable = store.scoring_view(planner.current_rows, users)
    version = store.version(int(planner.current_rows[-1]))
    latest = {}
    for number in store._held:  # what clients trained of the present version
        update = store.payload(number)
        if isinstance(update, Update) and update.base is version:
            latest[number] = update
    trained = 0
    for user in users.tolist():
        cluster = extras["cluster_of"][user]
        mix = version if cluster < 0 else 2 / 3 * version + 1 / 3 * extras["cluster_models"][cluster]
        own = latest.get(int(planner.current_rows[user]))
        if own is not None:
            mix = mix + (own.model - version) / 3
            trained += 1
        row = readable.rows[readable.row[user]]
        layout = readable.layout
        np.testing.assert_allclose(row[layout.items.start : layout.shared.stop], mix, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(
            row[layout.users].reshape(-1, 6)[readable.user[user]], store.own[user, :6]
        )
    assert trained == 6
    assert len(set(extras["cluster_of"].tolist()) - {-1}) == 3


def test_each_cluster_has_its_share_of_those_asked():
    prepared = prepare(load_scenario(personal()))
    found = []
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        found.append((prepared.seams.serving.groups.copy(), prepared.components.protocol._asked_in.copy()))
    decided = 0
    for number, (known, (_, asked)) in enumerate(
        zip([None, *[groups for groups, _ in found]], found, strict=False)
    ):
        now = asked == number
        assert now.sum() == 6
        if known is not None and (known >= 0).any():
            for cluster in range(3):
                candidates = (known == cluster) & (found[number - 1][1] != number - 1)
                quota = (known == cluster).sum() * 6 // 12
                assert (now & (known == cluster)).sum() >= min(quota, candidates.sum())
                decided += quota > 0
    assert decided > 5


AUTHORS = {
    "training": {"optimizer": "sgd", "batch_size": "full", "learning_rate": 1.0, "negatives": 1},
    "recommender": {
        **PP, "user_rows": "averaged", "pseudo_from": "all", "cluster_models": "none", "table_noise": 0.01,
        "clusters": {**CLUSTERS, "lasting": False},
    },
    "protocol": {
        **STAR, "merge": "mean", "upload": "gradients",
        "server": {"name": "adam", "learning_rate": 0.1, "step_per": "answer", "step_bound": 0.5},
    },
}  # fmt: skip
"""The loop of the published code: moments shared over answers, users' rows averaged, clusters for one choice."""


@pytest.mark.slow
def test_averaged_rows_are_those_that_clients_are_sent_and_recommend_by():
    """Clients begin with the coordinator's rows, and every user is scored by what was published last."""
    prepared = carried_out(personal(**AUTHORS, executor={"name": "reference"}))
    store, current, table = (
        prepared.executor.store,
        prepared.planner.current_rows,
        prepared.components.coordination.hook._table.rows,
    )
    readable, users = store.scoring_view(current, np.arange(12)), np.arange(12)
    width = store.layout.user_width
    for user in users.tolist():
        row = readable.rows[readable.row[user]][readable.layout.users].reshape(-1, width)
        assert row[readable.user[user]].tobytes() == table[user].tobytes()
    sent = prepared.seams.serving.extras["user_rows"]
    asked = (
        prepared.components.protocol._asked_in == 7
    )  # their last step began from the rows of the last push
    step = store.own[asked] - sent[asked]
    assert asked.sum() == 6
    assert 0 < np.abs(step).max() < 0.5  # a plain gradient, not a step of Adam
    assert np.array_equal(store.models(current, users)[:, store.layout.users], table)


@pytest.mark.slow
def test_averaged_rows_of_every_executor_are_alike():
    runs = [
        carried_out(personal(**AUTHORS, executor={"name": name}))
        for name in ("reference", "batched", "fused")
    ]
    tables = [run.components.coordination.hook._table.rows for run in runs]
    versions = [run.executor.store.version(int(run.planner.current_rows[-1])) for run in runs]
    start = runs[0].components.coordination.hook._pretrained(*_begun(runs[0]))[1]
    assert np.abs(tables[0] - start).max() > 0.05
    for found in (tables, versions):
        for other in found[1:]:
            np.testing.assert_allclose(other, found[0], rtol=0, atol=2e-4)


def _begun(run):
    version = run.components.model.initial_rows(run.components.layout, 1, 5)[
        0, run.components.layout.merged
    ].copy()
    return version, run.components.model.initial_own(run.components.layout, 12, 5)[0]


@pytest.mark.slow
def test_without_a_server_an_averaged_row_moves_by_a_part_of_its_client_s_step():
    """Two rounds ask six clients each, nobody twice; answers to the first are averaged before the second."""
    loop = {"protocol": {**STAR, "merge": "mean", "choose": "uniform", "rounds": 2}}
    of = {"name": "fedgnn", "pseudo_items": 0}
    own, averaged = (
        carried_out(personal(**loop, recommender={**of, "user_rows": rows}), upto=2)
        for rows in ("own", "averaged")
    )
    before = own.components.model.initial_own(own.components.layout, 12, 5)[0]
    moved = averaged.components.coordination.hook._table.rows - before
    first = np.flatnonzero(averaged.components.protocol._asked_in == 0)
    assert len(first) == 6
    assert np.flatnonzero(np.abs(moved).max(axis=1)).tolist() == first.tolist()
    np.testing.assert_allclose(6 * moved[first], (own.executor.store.own - before)[first], rtol=0, atol=1e-5)


def test_clusters_that_do_not_last_are_gone_after_one_choice():
    made = clustering(lasting=False)
    made.step(np.zeros(N_COLUMNS, np.float32), answers(dict.fromkeys(TOLD, (0, 0.0)), TOLD), round_of(1))
    assert made.groups.tolist() == [0, 0, 0, 1, 1, -1]
    made.step(np.zeros(N_COLUMNS, np.float32), answers({0: (0, 0.0)}), round_of(2))
    assert (made.groups == -1).all()
    made.step(np.zeros(N_COLUMNS, np.float32), answers({0: (0, 0.0)}), round_of(4))
    assert (made.groups >= 0).sum() == 5


def test_pseudo_items_of_the_published_code_may_be_the_user_s_own():
    taken = np.arange(30, dtype=np.int32)
    samples = {"items": taken.copy(), "negatives": np.full(30, 31, np.int32)}
    drawn = {
        among: add_pseudo_items(
            samples, n_items=32, share=1.0, draw=np.random.default_rng(1), positives=taken, among=among
        )
        for among in ("others", "all")
    }
    assert not np.isin(drawn["others"]["items"], taken).any()
    assert np.isin(drawn["all"]["items"], taken).sum() > 20
    assert np.isin(drawn["all"]["negatives"], taken).sum() > 20


@pytest.mark.parametrize("executor", slow_except_first(["reference", "batched"]))
@pytest.mark.full
def test_threads_and_waves_change_no_byte(executor, tmp_path):
    runs = [
        simulate(
            personal(executor={"name": executor, "threads": threads, "wave_size": size}, policies=[LDP]),
            out=tmp_path / f"{threads}{size}",
        )
        for threads, size in ((1, "unlimited"), (2, 3))
    ]
    one, other = ((run.path / "metrics.csv").read_bytes() for run in runs)
    assert one == other


LATENCY = {"latency": {"law": "exponential", "mean": 0.7}}
DEADLINE = {"protocol": {**STAR, "ask": "online", "round": {"deadline": 0.8}}}
AWAY = {
    "sessions": {
        "online": {"law": "exponential", "mean": 3.0},
        "offline": {"law": "exponential", "mean": 1.0},
    }
}


@pytest.mark.parametrize(
    ("late", "models"),
    [
        ({}, "own"),
        ({"network": LATENCY}, "round"),
        ({"network": LATENCY, "churn": AWAY, **DEADLINE}, "own"),
        ({"network": LATENCY, "churn": AWAY, **DEADLINE}, "round"),
    ],
    ids=["at once", "late", "away", "away, begun anew"],
)
@pytest.mark.full
def test_a_run_goes_on_where_it_was(late, models, tmp_path):
    check(
        tmp_path,
        personal(recommender={**PP, "cluster_models": models}, policies=[LDP], **late),
    )


@pytest.mark.parametrize("late", [{}, {"network": LATENCY}], ids=["at once", "late"])
@pytest.mark.full
def test_a_run_with_averaged_rows_goes_on_where_it_was(late, tmp_path):
    check(tmp_path, personal(**AUTHORS, **late))


@pytest.mark.slow
@pytest.mark.full
def test_what_clients_have_just_made_is_there_after_a_resumption_without_another_wake(tmp_path):
    scenario = personal(network={"latency": {"law": "constant", "value": 1.4}}, policies=[LDP])
    ticks = Patient()
    simulate(scenario, out=tmp_path / "counted", progress=ticks)
    assert len(ticks.ticks) > 9  # answers of the last rounds come after the last wake
    check(tmp_path, scenario, stops=(len(ticks.ticks),))


@pytest.mark.slow
def test_poisoners_and_the_coordinator_tell_of_no_row():
    attackers = [{"name": "a-ra", "number": 2, "targets": [3]}]
    single = {"model": {"name": "gmf", "dim": 6}, "recommender": {"name": "perfedrec", "pseudo_items": 0}}
    hides = carried_out(personal(attackers=attackers, **single), upto=1).components.outgoing.withholds_role(
        BlockRole.USER
    )
    assert hides.tolist() == [False] * 12 + [True] * 3


def test_pre_training_is_where_everybody_begins():
    plain, trained = (
        prepare(load_scenario(personal(recommender={**PP, "pretraining": {"epochs": epochs, "sampled": 6}})))
        for epochs in (0, 3)
    )
    assert plain.components.coordination.hook.start(np.ones(3), np.zeros((2, 6)))[0].tolist() == [1, 1, 1]
    for prepared, same in ((plain, True), (trained, False)):
        model, layout = prepared.components.model, prepared.components.layout
        users = model.initial_own(layout, 12, 5)[0]
        assert np.array_equal(prepared.executor.store.own[:, :6], users) == same
        version = model.initial_rows(layout, 1, 5)[0, layout.merged]
        assert np.array_equal(prepared.executor.store.version(0), version) == same
    assert np.isfinite(
        trained.components.coordination.hook._rows
    ).all()  # the coordinator knows the rows that it has made
    assert np.isnan(plain.components.coordination.hook._rows).all()


@pytest.mark.slow
def test_the_summary_tells_of_clusters_and_of_what_pre_training_takes(tmp_path):
    summary = simulate(personal(), out=tmp_path / "run").summary
    n_edges = int(prepare(load_scenario(personal())).components.split.train.sizes.sum())
    assert summary["clusters"]["times"] == 3  # rounds 2, 4, 6
    assert sum(summary["clusters"]["sizes"]) + summary["clusters"]["unknown"] == 12
    assert summary["pretraining"]["edges"] == n_edges
    assert summary["pretraining"]["share_of_edges_told"] == 1.0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["clusters"] == summary["clusters"]


@pytest.mark.slow
def test_a_cluster_s_model_and_a_told_row_are_counted(tmp_path):
    plain, whole = (
        simulate(
            personal(recommender=choice, protocol={**STAR, "choose": "uniform"}), out=tmp_path / name
        ).events("message")
        for name, choice in (("plain", {"name": "fedgnn"}), ("whole", PP))
    )
    down = [one["size_bytes"][one["sender"] == 12] for one in (plain, whole)]
    assert set((down[1] - down[0]).tolist()) == {4 * 40 * 6 + 4}
    up = [one["size_bytes"][one["sender"] < 12] for one in (plain, whole)]
    assert set((up[1] - up[0]).tolist()) == {4 * 6}


@pytest.mark.parametrize("policies", slow_except_first([[], [LDP]]))
def test_the_coordinator_sees_the_rows_that_it_is_told(policies):
    told = carried_out(personal(policies=policies), upto=3)
    hidden = carried_out(
        personal(recommender={"name": "fedgnn"}, protocol={**STAR, "choose": "uniform"}), upto=3
    )
    for prepared, seen in ((told, True), (hidden, False)):
        store = prepared.executor.store
        held = [number for number in store._held if isinstance(store.payload(number), Update)]
        assert held
        rows = store.load(np.array(held))[:, store.layout.users]
        assert rows.any(axis=1).all() == seen


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"recommender": {**PP, "clusters": {"number": 13}}}, "clusters.number: found 13, but there are only 12"),
        ({"recommender": {**PP, "clusters": {"first": 9, "last": 4}}}, "found last 4, which is before first 9"),
        ({"recommender": {**PP, "clusters": {"number": 0}}}, "recommender.clusters.number: found 0"),
        ({"recommender": {**PP, "local_share": 0.7, "cluster_share": 0.5}}, "together more than 1"),
        ({"recommender": {**PP, "pretraining": {"views": "drop"}}}, "recommender.pretraining.views: found 'drop'"),
        ({"model": {"name": "gmf"}}, "recommender.pseudo_items: found 0.1, but gmf does not learn from pairs"),
        ({"model": {"name": "simgcl"}}, "model.name: 'simgcl' uses the interaction graph of all users"),
        ({"recommender": {"name": "fedgnn"}}, "protocol.choose: found 'proportional', but no component"),
        (
            {
                "model": {"name": "gru4rec", "loss": "sampled"},
                "recommender": {"name": "fedgnn", "pseudo_items": 0, "user_rows": "averaged"},
            },
            "recommender.user_rows: found averaged, but gru4rec has no user rows",
        ),
        ({"recommender": None}, "protocol.choose: found 'proportional', but no component of this scenario"),
        ({"protocol": {**STAR, "client_model": "own"}}, "model.name: 'lightgcn' uses.*or to {name: fedavg, client_m"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(sections, message, tmp_path):
    with pytest.raises(ScenarioError, match=message):
        simulate(personal(**sections), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
