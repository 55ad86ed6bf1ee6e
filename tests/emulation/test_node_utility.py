"""Recommendation quality of the nodes' models: candidates, and the measures against naive loops."""

import numpy as np
import pytest

from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors import Executor, ExecutorContext
from gossiprec.compute.local_update import NodeSettings, TrainingSettings
from gossiprec.compute.store.arena import Arena
from gossiprec.data.split import Split
from gossiprec.emulation.scoring.utility import UtilityEvaluator
from gossiprec.measures.selectors import SAMPLED
from gossiprec.models.feeds import PointwiseFeed
from tests.compute.worlds import make_executor, make_model

N_USERS, N_ITEMS = 7, 150
TESTLESS = (2, 5)


def drawn_split(n_items=N_ITEMS, sizes=(12, 3, 4), seed=0):
    """Return a split in which two users have no test items; sizes are of train, validation and test."""
    rng, parts = np.random.default_rng(seed), ([], [], [])
    for user in range(N_USERS):
        order = rng.permutation(n_items)[: sum(sizes)]
        for part, items in zip(parts, np.split(order, np.cumsum(sizes)[:2]), strict=True):
            if part is not parts[2] or user not in TESTLESS:
                part += [(user, item) for item in items]
    sets = [Ragged.sets_from_pairs(*np.array(part, np.int64).reshape(-1, 2).T, N_USERS) for part in parts]
    return Split("drawn", N_USERS, n_items, *sets)


class RecordingExecutor:
    """A real executor that remembers what it was asked to score."""

    def __init__(self, executor):
        self.work, self.store, self.asked, self._executor = executor.work, executor.store, [], executor
        self.parallel = False

    def score(self, query):
        items = [part.tolist() for part in np.split(query.items, query.offsets[1:-1])]
        self.asked.append((query.row.tolist(), items))
        return self._executor.score(query)

    def score_all(self, models, threads):
        return Executor.score_all(self, models, threads)


def executor_for(split, *, user_table=False, seed=0):
    """Return an executor whose arena holds random models; node n's is in row ``N_USERS + 1 - n``."""
    model = make_model("gmf")
    layout = model.layout(split.n_items, N_USERS if user_table else 1)
    arena = Arena(layout, n_nodes=N_USERS + 1, capacity=2 * N_USERS, moments=False)
    arena.rows[:] = np.random.default_rng(seed).normal(size=arena.rows.shape)
    feed, node_settings = PointwiseFeed.of(split), NodeSettings.without_policies(N_USERS + 1)
    work = ExecutorContext(model, layout, TrainingSettings(), feed, arena, seed, node_settings)
    return RecordingExecutor(make_executor("reference", work))


CURRENT = N_USERS + 1 - np.arange(N_USERS + 1)
"""Arena rows of the nodes' models; the last node is a coordinator."""


def model_scores(executor, user):
    """Return all items' logits by the user's model."""
    layout, row = executor.work.layout, executor.work.arena.rows[CURRENT[user]]
    users = row[layout.users].reshape(layout.n_users, -1)
    own = users[user if layout.n_users > 1 else 0]
    weight, bias = row[layout.shared][:-1], row[layout.shared][-1]
    return row[layout.items].reshape(layout.n_items, -1) @ (own * weight) + bias


def candidates_of(split, executor, metrics=("hr@5",)):
    """Return the candidates of each test item, by user: rows of the test item and its negatives."""
    UtilityEvaluator(split, metrics, executor, 3).measure(CURRENT)
    rows, asked = executor.asked[-1]
    users = {CURRENT[user]: user for user in range(N_USERS)}
    return {
        users[row]: np.array(items).reshape(len(split.test[users[row]]), -1)
        for row, items in zip(rows, asked, strict=True)
    }


@pytest.mark.parametrize("many", [10, 10_000], ids=["one by one", "by keys"])
def test_each_test_item_meets_99_distinct_items_the_user_never_touched(monkeypatch, many):
    monkeypatch.setattr("gossiprec.emulation.scoring.metric_inputs.MAX_KEYED", many)
    split = drawn_split()
    found = candidates_of(split, executor_for(split))
    assert sorted(found) == [user for user in range(N_USERS) if user not in TESTLESS]
    for user, rows in found.items():
        touched = {*split.train[user], *split.validation[user], *split.test[user]}
        assert rows[:, 0].tolist() == split.test[user].tolist()
        for row in rows.tolist():
            assert len(set(row)) == len(row) == 1 + SAMPLED
            assert not touched & set(row[1:])


def test_candidates_differ_between_test_items_and_users_but_not_between_ticks():
    split = drawn_split()
    executor = executor_for(split)
    utility = UtilityEvaluator(split, ["hr@5"], executor, 3)
    utility.measure(CURRENT)
    utility.measure(CURRENT)

    assert executor.asked[0] == executor.asked[1]
    found = candidates_of(split, executor)
    places = set()
    for user, rows in found.items():
        touched = np.concatenate([split.train[user], split.validation[user], split.test[user]])
        others = np.setdiff1d(np.arange(N_ITEMS), touched)
        places |= {tuple(np.searchsorted(others, np.sort(row[1:]))) for row in rows}
    assert len(places) == sum(len(rows) for rows in found.values())


def test_a_users_candidates_do_not_depend_on_the_measures_asked_for():
    split = drawn_split()
    metrics = ["ndcg@10", "hr@3"]
    one, other = (candidates_of(split, executor_for(split), m) for m in (["hr@5"], metrics))
    assert {user: rows.tolist() for user, rows in one.items()} == {
        user: rows.tolist() for user, rows in other.items()
    }


def with_busy_user(split, n_left):
    """Return a split in which the last user has trained on all but some items; the others are as before."""
    busy, user = np.arange(split.n_items - n_left - len(split.test[N_USERS - 1])), N_USERS - 1
    tests = split.test[user]
    mine = np.setdiff1d(np.arange(split.n_items), tests)[: len(busy)]
    parts = [*(split.train[other] for other in range(user)), mine]
    none = [*(split.validation[other] for other in range(user)), np.zeros(0, np.int32)]
    train, validation = (Ragged.from_parts([np.asarray(x, np.int32) for x in some]) for some in (parts, none))
    return Split("busy", N_USERS, split.n_items, train, validation, split.test)


def test_one_busy_user_changes_no_candidates_of_others():
    split = drawn_split()
    busy = with_busy_user(split, n_left=4)
    before, after = candidates_by_user(split), candidates_by_user(busy)

    assert {len(row) for row in before[6]} == {1 + SAMPLED}
    assert {len(row) for row in after[6]} == {1 + 4}
    del before[6], after[6]
    assert before == after


def candidates_by_user(split):
    """Return the candidates of each test item, by user: users may have different numbers of them."""
    executor = executor_for(split)
    UtilityEvaluator(split, ["hr@5"], executor, 3).measure(CURRENT)
    users = {CURRENT[user]: user for user in range(N_USERS)}
    return {
        users[row]: [part.tolist() for part in np.split(np.array(items), len(split.test[users[row]]))]
        for rows, asked in executor.asked
        for row, items in zip(rows, asked, strict=True)
    }


@pytest.mark.parametrize("at_once", [2**23, 120], ids=["together", "user by user"])
def test_ranks_are_among_the_candidates_that_each_user_has(monkeypatch, at_once):
    monkeypatch.setattr("gossiprec.emulation.scoring.utility.MAX_CANDIDATES", at_once)
    split = with_busy_user(drawn_split(), n_left=7)
    executor, found = executor_for(split), candidates_by_user(split)

    def rank(user, place):
        mark, *others = model_scores(executor, user)[found[user][place]]
        return sum(score >= mark for score in others)

    hits, gains = naive(split, executor, 5, rank)
    measured = UtilityEvaluator(split, ["hr@5", "ndcg@5"], executor, 3).measure(CURRENT)
    assert [measured["hr@5"], measured["ndcg@5"]] == pytest.approx([hits, gains])


def naive(split, executor, k, rank_of):
    """Return mean hit ratio and mean NDCG, over test items, then over users that have some."""
    hits, gains = [], []
    for user in range(N_USERS):
        ranks = [rank_of(user, place) for place in range(len(split.test[user]))]
        if ranks:
            hits.append(np.mean([rank < k for rank in ranks]))
            gains.append(np.mean([1 / np.log2(rank + 2) if rank < k else 0.0 for rank in ranks]))
    return np.mean(hits), np.mean(gains)


@pytest.mark.parametrize("user_table", [False, True])
def test_sampled_measures_agree_with_a_naive_loop(user_table):
    split = drawn_split()
    executor = executor_for(split, user_table=user_table)
    candidates = candidates_of(split, executor)

    def rank_of(user, place):
        test, *others = candidates[user][place]
        scores = model_scores(executor, user)
        return sum(scores[other] >= scores[test] for other in others)

    found = UtilityEvaluator(split, ["hr@10", "ndcg@10", "hr@30"], executor, 3).measure(CURRENT)
    hr, ndcg = naive(split, executor, 10, rank_of)
    assert found == pytest.approx(
        {"hr@10": hr, "ndcg@10": ndcg, "hr@30": naive(split, executor, 30, rank_of)[0]}
    )
    assert 0 < hr < found["hr@30"] < 1


def test_full_measures_agree_with_a_naive_ranking_of_all_items_not_trained_on():
    split = drawn_split()
    executor, hits, gains, k = executor_for(split), [], [], 60
    for user in range(N_USERS):
        tests = set(split.test[user].tolist())
        scores = model_scores(executor, user)
        ranked = [j for j in np.argsort(-scores).tolist() if j not in set(split.train[user].tolist())]
        if tests:
            places = [place for place, item in enumerate(ranked[:k]) if item in tests]
            hits.append(len(places) / len(tests))
            ideal = sum(1 / np.log2(place + 2) for place in range(len(tests)))
            gains.append(sum(1 / np.log2(place + 2) for place in places) / ideal)

    found = UtilityEvaluator(split, ["recall@60", "full_ndcg@60"], executor, 3).measure(CURRENT)
    assert found == pytest.approx({"recall@60": np.mean(hits), "full_ndcg@60": np.mean(gains)})
    assert len(hits) == N_USERS - len(TESTLESS)


def test_blocks_of_users_do_not_show_in_full_measures(monkeypatch):
    split = drawn_split()
    measure = UtilityEvaluator(split, ["recall@20", "full_ndcg@20"], executor_for(split), 3).measure
    whole = measure(CURRENT)
    monkeypatch.setattr("gossiprec.emulation.scoring.utility.MAX_BLOCK", 2)
    assert measure(CURRENT) == whole


def test_users_who_leave_few_items_have_fewer_negatives():
    split = drawn_split(n_items=30)
    found = candidates_of(split, executor_for(split))
    assert {rows.shape[1] for rows in found.values()} == {1 + 30 - 19}


def test_a_user_who_leaves_no_item_cannot_be_measured_against_samples():
    split = drawn_split(n_items=19)
    with pytest.raises(DataError, match=r"user 0 has all 19 items, .*recall@K"):
        UtilityEvaluator(split, ["hr@5"], executor_for(split), 3)
    assert UtilityEvaluator(split, ["recall@5"], executor_for(split), 3).measure(CURRENT)["recall@5"] > 0


def test_without_test_items_nothing_is_measured():
    split = drawn_split(sizes=(12, 3, 0))
    assert UtilityEvaluator(split, ["hr@5", "recall@5"], executor_for(split), 3).measure(CURRENT) == {}
