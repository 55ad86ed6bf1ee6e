"""DeepFM by plain numpy, and the attributes that it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gossiprec.base.errors import DataError
from gossiprec.base.features import FeatureTable, NumberColumn
from gossiprec.data.features import label_column
from gossiprec.models import MODELS
from tests.compute.worlds import World

USERS = FeatureTable(
    ("gender", "age"),
    (label_column([["f"], ["m"], ["f"], ["m"], ["m"]]), NumberColumn(np.arange(5.0))),
    "users.csv",
)
ITEMS = FeatureTable(("genres",), (label_column([["a"], ["a", "b"], ["c"]] * 4),), "items.csv")
CHOSEN = {"user_attributes": ("gender",), "item_attributes": ("genres",), "hidden": (3, 2), "dim": 2}


def data(**changes):
    return replace(World().split(), **{"user_features": USERS, "item_features": ITEMS, **changes})


def bound(split, **options):
    kind = MODELS["deepfm"]
    return kind(kind.Options(**CHOSEN, **options)).bind_to_data(split.training_data())


def by_hand(p, embeddings, weights, keep):
    """Return the logit of one sample, field by field."""
    total = p["offset"][0] + sum(weights)
    for f, one in enumerate(embeddings):
        for other in embeddings[:f]:
            total += one @ other
    values, at = np.concatenate(embeddings), 0
    for k in range(3):
        values = p[f"layer{k}"] @ values + p[f"layer{k}_offset"]
        if k < 2:
            values = np.maximum(values, 0) * keep[at : at + len(values)]
            at += len(values)
    return total + values[0]


@pytest.mark.parametrize("known", [True, False])
def test_a_score_is_the_sum_of_weights_pairs_and_perceptron(known):
    split = data()
    model, rng = bound(split), np.random.default_rng(2)
    layout = model.layout(split.n_items, split.n_users)
    tables = {name: rng.normal(size=shape) for name, shape in layout.tables.items()}
    p = layout.blocks_by_name(tables)
    items, user, keep = np.array([1, 0, 2]), 3, rng.random((3, 5))
    query = {"user": torch.tensor([user]), "items": torch.from_numpy(items), "keep": torch.from_numpy(keep)}
    if known:
        shares = model.make_feed(split.training_data(for_feed=True)).attributes[user]
        assert shares.tolist() == [0, 1]
        query["attributes"] = torch.from_numpy(shares).double()
    given = {name: torch.from_numpy(part) for name, part in p.items()}
    given["item_shares"] = torch.from_numpy(model.constants["item_shares"]).double()

    found = model.score(given, query).numpy()

    labels, weights = p["label_factors"], p["label_weights"]
    genres = {1: [2, 3], 0: [2], 2: [4]}
    for place, item in enumerate(items):
        fields = [p["user_factors"][user], p["item_factors"][item]]
        fields += [labels[1] if known else np.zeros(2), labels[genres[item]].mean(0)]
        first = [p["user_weight"][user, 0], p["item_weight"][item, 0], weights[genres[item]].mean()]
        first += [weights[1]] if known else []
        assert found[place] == pytest.approx(by_hand(p, fields, first, keep[place]), rel=1e-9)


def test_hidden_units_drop_out_by_their_generator():
    model = bound(data(), dropout=0.5)
    samples = {"items": np.zeros(400, np.int32)}
    keep = model.draws(samples, np.random.default_rng(0))["keep"]

    assert keep.shape == (400, 5)
    assert set(np.unique(keep)) == {0.0, 2.0}
    assert keep.mean() == pytest.approx(1, abs=5 / 2000**0.5)
    assert keep.tobytes() == model.draws(samples, np.random.default_rng(0))["keep"].tobytes()
    assert bound(data()).draws(samples, np.random.default_rng(0)) == {}


LACKING = label_column([["f"], [], ["f"], ["m"], []])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"user_features": None},
            r"model.user_attributes: found gender, but drawn has no attributes of users; name",
        ),
        (
            {"item_features": None},
            r"model.item_attributes: found genres, but drawn has no attributes of items; name",
        ),
        ({"user_features": replace(USERS, names=("sex", "age"))}, r"users.csv: found no column 'gender'"),
        (
            {"item_features": FeatureTable(("genres",), (NumberColumn(np.zeros(12)),), "x")},
            r"genres has numbers",
        ),
        (
            {"user_features": FeatureTable(("gender",), (LACKING,), "users.csv")},
            r"model.user_attributes: found no gender for 2 of the users in users.csv, such as 1; expected",
        ),
        (
            {"item_features": FeatureTable(("genres",), (label_column([["a"]] * 11 + [[]]),), "items.csv")},
            r"model.item_attributes: found no genres for 1 of the items in items.csv, such as 11; expected",
        ),
    ],
    ids=["no users", "no items", "another column", "numbers", "some users", "some items"],
)
def test_attributes_that_are_missing_are_refused_in_one_message(changes, message):
    split = replace(data(), **changes)
    with pytest.raises(DataError, match=message):
        bound(split).make_feed(split.training_data(for_feed=True))


def test_unknown_attributes_may_be_zero_and_those_of_users_without_items_do_not_count():
    lacking = data(user_features=FeatureTable(("gender",), (LACKING,), "users.csv"))
    feed = bound(lacking, unknown="zero").make_feed(lacking.training_data(for_feed=True))
    assert feed.attributes.tolist() == [[1, 0], [0, 0], [1, 0], [0, 1], [0, 0]]

    train = lacking.train
    idle = replace(
        lacking, train=type(train).from_parts([train[0], train[1][:0], train[2], train[3], train[4][:0]])
    )
    assert bound(idle).make_feed(idle.training_data(for_feed=True)).attributes.shape == (5, 2)


def test_the_feed_of_some_nodes_keeps_their_attributes_only():
    split = data()
    feed = bound(split).make_feed(split.training_data(for_feed=True))

    some = feed.restricted_to(np.array([1, 3]))
    assert some.attributes.tolist() == [[0, 0], [0, 1], [0, 0], [0, 1], [0, 0]]
    assert [len(some.positives[n]) > 0 for n in range(5)] == [False, True, False, True, False]
    assert feed.for_user(3).attributes.tolist() == [[0, 1]]
    assert feed.for_items(np.array([2, 1])).attributes.tolist() == [[0, 0]]
    samples = feed.samples(2, update=0, negatives=1, seed=1)
    assert (samples["attributes"] == [1, 0]).all()
    assert len(samples["attributes"]) == len(samples["items"])
    whole = feed.samples_of_all(update=0, negatives=1, seed=1)
    assert (whole["attributes"] == feed.attributes[whole["user"]]).all()
    assert feed.histories(split, "test")["attributes"] is not None
