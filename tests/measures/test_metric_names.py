"""How scenarios ask for measures."""

import pytest

from gossiprec.measures import MEASURES, Measure
from gossiprec.measures.selectors import measure_name, read_metric, split_baseline_name


@pytest.mark.parametrize(
    ("text", "name", "k", "full"),
    [
        ("hr@20", "hr", 20, False),
        ("ndcg@99", "ndcg", 99, False),
        ("full_ndcg@100", "ndcg", 100, True),
        ("recall@999999", "recall", 999_999, True),
        ("f1@1", "f1", 1, True),
    ],
)
def test_a_name_says_measure_cut_and_what_is_ranked(text, name, k, full):
    found = read_metric(text)
    assert (found.name, found.measure, found.k, found.full) == (text, MEASURES[name], k, full)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "recal@20",
            r"found 'recal@20': unknown measure 'recal'; known: .*recall.*; did you mean 'recall'\?",
        ),
        ("full_ndgc@20", "unknown measure 'ndgc'.*did you mean 'ndcg'"),
        ("full_f1@20", "found 'full_f1@20', but f1 always ranks all items; write f1@20"),
        ("val_hr@20", "validation items are ranked among all items; write val_recall@20"),
        ("val_ndcg@20", "validation items are ranked among all items; write val_full_ndcg@20"),
        ("val_full_hr@20", "recall; write val_recall@20, or val_hit@20"),
        ("val_full_recall@20", "recall always ranks all items; write val_recall@20"),
        ("val_er@20", "er uses neither test nor validation items; write er@20"),
        ("full_val_ndcg@20", "unknown measure 'val_ndcg'"),
        ("full_hr@20", "this name used to mean recall; write recall@20"),
        ("hr@100", r"only 100 items are ranked; did you mean 'recall@100'\?"),
        ("ndcg@100", r"only 100 items are ranked; did you mean 'full_ndcg@100'\?"),
        *(
            (text, "expected a measure and a length")
            for text in ("hr", "hr@", "@20", "hr@0", "hr@05", "hr@1e3", "hr@٢")
        ),
        *(
            (text, "expected a measure and a length")
            for text in ("hr @20", "hr@1000000", " hr@20", "hr@20 ", "")
        ),
        ("base@20", "unknown measure 'base'"),
        ("../hr@20", "unknown measure '../hr'"),
    ],
)
def test_what_is_no_metric_is_answered_with_what_to_write(text, message):
    with pytest.raises(ValueError, match=message):
        read_metric(text)


def test_a_measure_of_anybody_is_asked_for_like_ours(monkeypatch):
    class Deepest(Measure):
        """The last rank of a relevant item."""

        @staticmethod
        def compute_values(seen, k):
            return seen.ranks.max(axis=1)

    monkeypatch.setitem(MEASURES._members, "deepest", Deepest)
    found = read_metric("deepest@7")
    assert (found.measure, found.k, found.full) == (Deepest, 7, True)
    with pytest.raises(ValueError, match="did you mean 'deepest'"):
        read_metric("depest@7")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("recall@20", ("recall@20", "")),
        ("recall@20[popularity]", ("recall@20", "popularity")),
        ("er@5[23]", ("er@5[23]", "")),
        ("recall@20[validated]", ("recall@20", "validated")),
        ("er@5[23][random]", ("er@5[23]", "random")),
        ("max_aac[single]", ("max_aac[single]", "")),
    ],
)
def test_a_metric_of_another_order_is_told_from_one_of_a_target(name, parts):
    assert split_baseline_name(name) == parts


def test_validation_items_are_asked_for_by_a_prefix():
    found = read_metric("val_full_ndcg@200")
    assert (found.measure, found.k, found.full, found.on_validation) == (MEASURES["ndcg"], 200, True, True)
    assert found.input_type is not read_metric("full_ndcg@200").input_type
    assert not read_metric("full_ndcg@200").on_validation
    assert measure_name("val_full_ndcg@200") == "ndcg"
