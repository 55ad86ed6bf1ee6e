"""Federated recommenders, their rules and all measures beside plain numpy; and formulas that are mutated disagree."""

from __future__ import annotations

import ast
import functools
import types
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gossiprec.base.features import FeatureTable
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.data.features import label_column
from gossiprec.defences.ldp import ClipAndNoise, LDPOptions
from gossiprec.federated.correlation import correlation_loss
from gossiprec.federated.pdc_frs.contribution import ExponentialMechanism, perturb_items
from gossiprec.federated.perfedrec.coordinator import PretrainingOptions, pretrain
from gossiprec.federated.vector_clustering import k_means, ward_clusters
from gossiprec.measures import MEASURES, MeasureData, RelevantRanks, TargetRanks, TopItems
from gossiprec.measures.ranking import relevant_ranks, target_ranks
from gossiprec.rules import RootData
from gossiprec.rules.aggregators import AGGREGATORS, Inbox, make_aggregator
from tests.aggregators.test_poisoning_rules import N_ITEMS, N_SHARED, WIDTH, drawn
from tests.aggregators.test_poisoning_rules import inbox as inbox_of
from tests.audit import federated_loop, formulas, poisoners, rules, unlearning
from tests.audit.federated_mutations import MUTATIONS
from tests.recommenders import contributing
from tests.recommenders import test_bil as of_bil
from tests.recommenders import test_coordinator as of_coordinator
from tests.recommenders import test_fedcl as of_fedcl
from tests.recommenders import test_losses as of_losses
from tests.recommenders import test_pdc_frs as of_pdc
from tests.recommenders import test_perfedrec as of_perfedrec
from tests.recommenders import test_pretraining as of_pretraining
from tests.recommenders.test_by_hand import RUNS, SGD, made, scenario, versions
from tests.slow import slow_except_first

MODULES = (federated_loop, formulas, rules)
AUDITS = {}
"""By name, a function of the formulas that returns what the library finds, and what is expected."""


def audit(function):
    AUDITS[function.__name__] = function
    return function


# Training.

WORLDS = {
    "FedNCF, Adam": RUNS["FedNCF"],
    "FedNCF, SGD": ({}, {**SGD, "learning_rate": 0.1}, "sum"),
    "A-hum": RUNS["poisonfeddlrs"],
    "A-ra": ({**RUNS["poisonfeddlrs"][0], "attackers": [{"name": "a-ra", "number": 3, "std": 0.5}]}, SGD, "sum"),
    "CL4FedRec": RUNS["CL4FedRec, Adam"],
}  # fmt: skip


@functools.cache
def trained(name):
    sections, how, merge = WORLDS[name]
    return versions(scenario("fused", how, merge, **sections), 2)


def training(name):
    sections, how, merge = WORLDS[name]

    def compare(f):
        begun, *found = trained(name)
        by_hand = list(f.Loop(made("reference", how, merge, **sections)).epochs(2))
        way = np.linalg.norm(by_hand[-1] - begun)
        return np.array(found) / way, np.array(by_hand) / way

    return compare


AUDITS |= {name: training(name) for name in WORLDS}


def ncf_case(recommender):
    """Return a case of the tests of losses, and its tables as the formulas take them."""
    p, batch, extras = of_losses.case(recommender)
    pairs = [[p[f"weight{k}"].numpy(), p[f"offset{k}"].numpy()] for k in range(2)]
    tables = {"user": p["users"][0].numpy(), "items": p["items"].numpy(), "layers": pairs}
    return p, batch, extras, tables


@audit
def loss_of_cl4fedrec(f):
    recommender = of_losses.made("cl4fedrec", user_weight=0.3, item_weight=0.9)
    p, batch, extras, tables = ncf_case(recommender)
    columns = [batch[name].numpy() for name in ("items", "labels", "user_noise")]
    due = f.client_loss(tables, *columns, extras["synthetic_users"].numpy(), each=of_losses.EACH)
    return float(recommender.loss(p, batch, extras)), due


@audit
def correlation_of_dimensions(f):
    rows = np.random.default_rng(3).normal(0.4, 1, (9, 4))
    return float(correlation_loss(torch.tensor(rows), torch.ones(9, dtype=torch.bool))), f.correlation(rows)


def coordinators_tables(version, dim=5, hidden=6):
    """Return item table and layers of a version of the tests of coordinators."""
    items, rest = np.split(version.astype(float), [of_coordinator.N_ITEMS * dim])
    weight, offset, last, bias = np.split(rest, np.cumsum([2 * dim * hidden, hidden, hidden]))
    layers = [[weight.reshape(hidden, -1), offset], [last.reshape(1, -1), bias]]
    return {"items": items.reshape(-1, dim), "layers": layers}


@audit
def synthetic_users(f):
    users, sent = of_coordinator.synthetic(steps=3, rate=0.01), of_coordinator.version()
    tables, before = coordinators_tables(sent), users.users.astype(float)
    users.refresh(sent, epoch=2)
    labels = np.tile([1.0, 0, 0, 0, 0], 6)
    due = [
        f.fitted_user({**tables, "user": row}, users._samples(place, 2), labels, steps=3, rate=0.01)
        for place, row in enumerate(before)
    ]
    return users.users, np.array(due)


@audit
def popularity_regulariser(f):
    tool, sent = of_coordinator.regulariser(hot=5, sub=35), of_coordinator.version()
    items = coordinators_tables(sent)["items"]
    found = coordinators_tables(tool.regularise(sent, 1))["items"]
    return found, f.regularised(items, np.arange(5), np.arange(5, 40), tau=0.2, rate=0.01)


# Rules.


def world_of_changes(n=9):
    own, dense, items = drawn(n, seed=1)
    dense[3] *= 20
    items[4], dense[4] = items[2], 0.7 * dense[2]  # alike
    deltas = inbox_of(dense, items).deltas
    weights = np.arange(1.0, n + 1)

    def table(model):
        return model[:-N_SHARED].astype(float).reshape(N_ITEMS, WIDTH)

    draw = np.random.default_rng(4)
    before, step = (draw.normal(size=len(own)) for _ in range(2))
    models = (own.astype(float) + dense).astype(np.float32)
    return SimpleNamespace(
        own=own.astype(float), changes=deltas, models=models.astype(float), weights=weights, ones=np.ones(n),
        table=table, before=before, step=step,
    )  # fmt: skip


def rule_of(name):
    def compare(f):
        w, (options, function) = world_of_changes(), f.RULES[name]
        if name in ("geometric-median", "fltrust", "union"):
            w.models = w.own + np.random.default_rng(2).normal(size=w.models.shape).astype(np.float32)
        rule = make_aggregator({"name": name, **options})
        own, models = np.float32(w.own), np.float32(w.models)
        if name == "union":
            spread_out(w)
            models = np.float32(w.models)
        places, positives = np.arange(len(models)), w.weights.astype(np.int64)
        if name == "fltrust":
            rule.root = RootData(
                np.arange(1), np.zeros((1, 2), np.float32), lambda m, r, n: (m + np.float32(w.step), r), *[None] * 3
            )  # fmt: skip
        given = Inbox(models, places, rule.weights(positives), 0.0, w.changes)
        if name == "item-regularisation":
            rule.aggregate(np.float32(w.before), given)
        if name == "centered-clipping":
            rule.aggregate(own, given)
        return rule.aggregate(own, given), function(w)

    return compare


def spread_out(w):
    """Let three clients draw all item rows together, and have the changes of the others be small."""
    dense = 0.01 * (w.models - w.own)
    table = w.table(w.own)
    for place in (2, 7):
        dense[place, :-N_SHARED] = 0.9 * (table.mean(axis=0) - table).ravel()
    every = [np.arange(N_ITEMS, dtype=np.int32)] * len(dense)
    w.changes = inbox_of(np.float32(dense), every).deltas
    w.models = w.own + np.float32(dense)


AUDITS |= {name: rule_of(name) for name in rules.RULES}


# PDC-FRS.


@audit
def contribution(f):
    similarity, train = contributing.drawn_at_random(40), contributing.users_with([5, 1, 12], 40)
    ((_, _, found),) = ExponentialMechanism(similarity, epsilon=3.0, sensitivity=1.0).blocks(np.arange(40))
    drawn = perturb_items(train, similarity, epsilon=6.0, seed=1).drawn
    table = similarity.table.astype(float)
    due = [f.contributed(table, user, train[user].tolist(), 6.0, 1) for user in range(3)]
    chances = [f.mechanism(row, 3.0, 1.0) for row in table]
    return np.append(found.ravel(), drawn), np.append(np.ravel(chances), np.concatenate(due))


@audit
def auxiliary_model(f):
    one = of_pdc.auxiliary(batch=10_000, rate=0.05)
    begun = {name: part.numpy().astype(float) for name, part in one._tables(one._values.copy()).items()}
    p = {**begun, "layers": [[begun[f"weight{k}"], begun[f"offset{k}"]] for k in range(2)]}
    samples = []
    for epoch in range(2):
        drawn = [
            one._feed.samples(user, update=epoch, negatives=2, seed=of_pdc.SEED)
            for user in range(of_pdc.N_USERS)
        ]
        samples.append([(each["items"].astype(int), each["labels"].astype(float)) for each in drawn])
        one.train(epoch)
    users, items = f.auxiliary_users_and_items(p, samples, 0.05, 2)
    return np.concatenate([one.users, one.items]), np.concatenate([users, items])


@audit
def items_contrast_of_pdc_frs(f):
    between, version = of_pdc.coordinator(item_weight=0.4, temperature=0.5, user_weight=0.0, augmented=0)
    version, _ = of_pdc.rounds_of(between, version, 0)
    auxiliary = between.auxiliary.items.astype(float).copy()
    found, _ = of_pdc.rounds_of(between, version, 2)
    items = version[: auxiliary.size].reshape(auxiliary.shape).astype(float)
    due = f.items_drawn_near(items, auxiliary, beta=0.4, tau=0.5, rate=0.05)
    return found[: auxiliary.size].reshape(due.shape), due


@audit
def users_contrast_of_pdc_frs(f):
    pdc = of_pdc.recommender(user_weight=0.7, temperature=0.4)
    draw = np.random.default_rng(2)
    rows, user = draw.normal(0, 1, (6, of_pdc.DIM)), draw.normal(0, 1, of_pdc.DIM)
    blocks = {b.name: torch.tensor(draw.normal(0, 1, b.shape)) for b in of_pdc.NCF.blocks()}
    p = {
        **blocks,
        "users": torch.tensor(user[None]),
        "items": torch.tensor(draw.normal(0, 1, (3, of_pdc.DIM))),
    }
    batch = {"items": torch.arange(3), "labels": torch.tensor([1.0, 0, 0.3]), "weights": torch.ones(3)}
    batch["user"] = torch.tensor([0])
    units = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T
    extras = {"auxiliary_users": torch.tensor(units)}
    own = {
        name: torch.tensor(part) for name, part in pdc.client_extras(2, {"auxiliary_users": units}).items()
    }
    found = pdc.loss(p, {**batch, **own}, extras) - of_pdc.NCF.loss(p, batch)
    return float(found) / 0.7, f.user_near(user, rows, 2, 0.4)


# PerFedRec++.


def pretraining(views, sampled):
    def compare(f):
        o = PretrainingOptions(
            views=views, epochs=2, sampled=sampled, noise=0.2, temperature=0.3, pseudo_edges=0.3
        )
        graph, tables, seed = of_pretraining.GRAPH, of_pretraining.tables(), of_pretraining.SEED
        true = list(zip(graph.users.tolist(), graph.items.tolist(), strict=True))
        found = pretrain(*tables, graph, o, layers=2, seed=seed)
        return np.concatenate(found), f.pretrained(np.concatenate(tables), true, 7, 9, o, 2, seed)

    return compare


AUDITS |= {"views of noise": pretraining("noise", 8), "views of mix": pretraining("mix", 4)}


@audit
def clusters_by_k_means(f):
    rows = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    found = k_means(rows, 4, 5)
    return found, f.nearest_means(rows.astype(float), found)


@audit
def model_of_a_cluster(f):
    hook, version = of_perfedrec.clustered(), np.full(of_perfedrec.N_COLUMNS, 9.0, np.float32)
    changes, weights = {0: (2, 1.0), 1: (2, 4.0), 2: (5, -3.0), 3: (6, 8.0)}, np.array([1.0, 3, 2, 5])
    before = hook._models[0].astype(float).copy()
    found = hook.step(version, of_perfedrec.answers(changes, weights=weights), of_perfedrec.round_of(2))[1]
    dense = np.zeros((4, of_perfedrec.N_ITEMS, of_perfedrec.DIM))
    for client, (item, by) in changes.items():
        dense[client, item] = by
    return found["cluster_models"][0], f.cluster_model(before, dense.reshape(4, -1), weights, [0, 1, 2])


@audit
def mix_of_models(f):
    kind = of_perfedrec.RECOMMENDERS["perfedrec"]
    options = kind.Options(local_share=0.25, cluster_share=0.5, pseudo_items=0)
    one = kind(options, of_perfedrec.MF, negatives=1, learning_rate=0.1)
    version, own = np.ones(4, np.float32), np.array([2.0, 3, 4, 5])
    extras = {
        "cluster_models": np.array([[3.0] * 4, [7.0] * 4], np.float32),
        "cluster_of": np.array([1], np.int32),
    }
    found = one.personal_models(np.array([0]), version, extras)
    whole = found.versions[found.of[0]] + found.local * (own - version)
    return whole, f.mix(own, extras["cluster_models"][1], version, 0.25, 0.5)


@audit
def clipped_and_noisy_update(f):
    draw = np.random.default_rng(6)
    model, base = (draw.normal(size=20).astype(np.float32) for _ in range(2))
    options = LDPOptions(norm="linf", bound=0.5, noise="laplace", scale=0.1, of="update")
    payloads = [MessagePayload(None, each[:18].reshape(6, 3), each[18:]) for each in (model, base)]
    found = ClipAndNoise(options).encode(*payloads, PushContext(5, 3, 7, np.zeros(0, np.int32)))
    due = f.clipped_update(model, base, 0.5, 0.1, generator(5, "ldp", 3, 7))
    return np.append(found.items.ravel(), found.shared), due


# FedCL.


@audit
def told_vectors(f):
    clients = [of_fedcl.client(node, positives=(2, 7, 40), model=of_fedcl.TOWERS) for node in (3, 9)]
    found = of_fedcl.fedcl(of_fedcl.TOWERS, clip=0.5, epsilon=4.0).user_uploads(clients)
    due = [
        f.told_vector(one.own.astype(float), 0.5, 4.0, generator(5, "told-vector", one.node, 0))
        for one in clients
    ]
    return found, np.array(due)


@audit
def clusters_by_ward(f):
    rows = np.random.default_rng(2).normal(size=(14, 3)).astype(np.float32)
    found = ward_clusters(rows, 4)
    expected = f.ward(rows.astype(float), 4)
    numbers = sorted({frozenset(np.flatnonzero(found == k).tolist()) for k in range(4)} ^ expected, key=min)
    return len(numbers), 0


@audit
def semi_hard_negatives(f):
    own = np.sort(of_fedcl.best(of_fedcl.CENTROIDS[2])[:4]).astype(np.int32)
    one = replace(of_fedcl.told_by([0.1, 0.9, 0, 0]), positives=own)
    items = of_fedcl.version()[: of_fedcl.N_ITEMS * of_fedcl.DIM].reshape(of_fedcl.N_ITEMS, of_fedcl.DIM)
    made = of_fedcl.fedcl(semi_hard=12)
    found = made._semi_hard(one, np.random.default_rng(8))
    due = f.semi_hard(
        one.user_upload, of_fedcl.CENTROIDS, items, one.positives.tolist(),
        share=0.25, number=12, draw=np.random.default_rng(8),
    )  # fmt: skip
    return found, due


@audit
def softmax_of_own_negatives(f):
    draw = np.random.default_rng(2)
    shapes = of_fedcl.TOWERS.layout(9).tables
    p = {name: torch.from_numpy(draw.normal(size=shape)) for name, shape in shapes.items()}
    negatives = [[1, 2, 2, -1], [-1, -1, -1, -1], [3, 6, 8, 1]]
    batch = {
        "items": torch.tensor([[4, -1, 6]]), "user": torch.tensor([0]), "weights": torch.ones(1),
        "negatives": torch.tensor([negatives]),
    }  # fmt: skip
    found = of_fedcl.fedcl(of_fedcl.TOWERS).loss(p, batch, {}).item()
    return found, f.softmax_loss(p["items"].numpy(), p["users"][0].numpy(), [4, 6], [[1, 2, 2], [3, 8, 1]])


@audit
def batch_insensitive_loss(f):
    p, batch = of_bil.case(of_bil.TOWERS, [[0, 4, 2, 7]], [[5, -1, 8]])
    items, user = p["items"].numpy().astype(float), p["users"][0].numpy().astype(float)
    found = of_bil.bil(of_bil.TOWERS, spread_weight=0.3).loss(p, batch, {}).item()
    return found, f.batch_insensitive(items, user, [4, 2, 7], [0, 2, 4, 5, 7, 8], 0.9, 0.3)


# Measures.

N_USERS, N_LISTED, K = 12, 30, 7
GENRES = ["action", "comedy", "drama", "war"]


@functools.cache
def listed():
    """Return scores, training and test items, and genres of each item: one at least."""
    draw = np.random.default_rng(0)
    order = np.argsort(draw.random((N_USERS, N_LISTED)) ** (1 + np.arange(N_LISTED) / 9), axis=1)
    train, test = ([sorted(row[a:b].tolist()) for row in order] for a, b in ((0, 6), (6, 10)))
    genres = [sorted(set(draw.choice(GENRES, draw.integers(1, 4)).tolist())) for _ in range(N_LISTED)]
    return draw.random((N_USERS, N_LISTED)), train, test, genres


def lists_of():
    """Return each user's items that are not of its training, best first."""
    scores, train, _, _ = listed()
    return [
        [item for item in np.argsort(-row).tolist() if item not in own]
        for row, own in zip(scores, train, strict=True)
    ]


def mask(rows):
    found = np.zeros((N_USERS, N_LISTED), bool)
    for user, items in enumerate(rows):
        found[user, items] = True
    return found


def ranking_measure(name):
    def compare(f):
        scores, train, test, _ = listed()
        ranks = relevant_ranks(scores.copy(), ~mask(train), mask(test), 10**6)
        pairs = zip(lists_of(), test, strict=True)
        if name == "hr":  # of one test item
            ranks = RelevantRanks(ranks.ranks[:, :1])
            pairs = ((own, [next(item for item in own if item in wanted)]) for own, wanted in pairs)
        due = [f.of_list(own, wanted, K)[name] for own, wanted in pairs]
        return MEASURES[name].compute_values(ranks, K), due

    return compare


RANKING = ("recall", "precision", "f1", "ndcg", "mrr", "hit", "hr")
OF_DATA = ("coverage", "exposure_gini", "novelty", "stratified_recall", "miscalibration")
AUDITS |= {name: ranking_measure(name) for name in RANKING}


@audit
def er(f):
    scores, train, _, _ = listed()
    targets = np.array([3, 8, 24])
    found = MEASURES["er"].compute_values(TargetRanks(target_ranks(scores, ~mask(train), targets)), K)
    return found, f.exposure(lists_of(), train, targets.tolist(), K)


def data_measure(name):
    def compare(f):
        _, train, test, genres = listed()
        parts = [Ragged.from_parts([np.array(row, np.int32) for row in rows]) for rows in (train, test, test)]
        table = FeatureTable(("genres",), (label_column(genres),), "items.csv")
        data = MeasureData("audit", N_USERS, N_LISTED, *parts, item_features=table)
        lists = np.array([row[: K + 2] for row in lists_of()], np.int32)
        found = MEASURES[name](data).compute_values(TopItems(lists, N_LISTED, np.arange(N_USERS)), K)
        due = f.of_data(lists.tolist(), train, test, genres, N_LISTED, K)[name]
        return (found.mean() if np.ndim(due) == 0 else found), due

    return compare


AUDITS |= {name: data_measure(name) for name in OF_DATA}


# What is compared.


def agree(name, module=None):
    """Return whether library and formulas agree, those of one module possibly mutated."""
    known = {key: value for each in MODULES for key, value in vars(each).items()}
    found, due = AUDITS[name](SimpleNamespace(**{**known, **(module or {})}))
    return np.shape(found) == np.shape(due) and bool(np.allclose(found, due, rtol=1e-5, atol=1e-5))


def mutated(old, new):
    """Return the names of the one module in which a text stands, once, with another text in its place."""
    (source,) = [text for each in MODULES if (text := Path(each.__file__).read_text()).count(old)]
    assert source.count(old) == 1, f"{old!r} is not there once"
    module = types.ModuleType("mutated")
    exec(source.replace(old, new), vars(module))
    return vars(module)


@pytest.mark.parametrize(
    "name", [*slow_except_first(WORLDS), *(name for name in AUDITS if name not in WORLDS)]
)
def test_the_library_agrees_with_plain_numpy(name):
    assert agree(name)


TRAINED = [one for one in MUTATIONS if one[0] in WORLDS]


@pytest.mark.parametrize(
    ("name", "old", "new"), [*slow_except_first(TRAINED), *(one for one in MUTATIONS if one not in TRAINED)]
)
def test_formulas_that_are_mutated_disagree(name, old, new):
    assert not agree(name, mutated(old, new))


def test_every_rule_and_every_measure_is_audited():
    assert {*AGGREGATORS} == {*rules.RULES}
    assert {name for name, _, _ in MUTATIONS} == {*AUDITS}
    assert {*MEASURES} == {*RANKING, *OF_DATA, "er"}


@pytest.mark.parametrize("module", [*MODULES, poisoners, unlearning])
def test_formulas_know_of_the_library_the_draws_alone(module):
    tree = ast.parse(Path(module.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert imported <= {
        "__future__", "collections", "math", "numpy", "gossiprec.base.rng", "tests.audit.federated_loop",
        "tests.audit.brute_force",
    }  # fmt: skip
