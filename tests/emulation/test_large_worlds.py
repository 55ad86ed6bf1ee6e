"""What keeps large worlds small: in pieces, for those asked about alone, on several threads, with the same results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from gossiprec.data.split import Interactions, first_interactions
from gossiprec.emulation import prepare, simulate
from gossiprec.emulation.progress import read_clocks
from gossiprec.emulation.run.active_run import ActiveRun
from gossiprec.emulation.run.run_options import RunOptions
from gossiprec.emulation.scoring import utility
from gossiprec.emulation.scoring.metric_inputs import draw_candidates
from gossiprec.emulation.scoring.ranking_scores import RankingScores
from gossiprec.measures import attack_accuracy, communities
from gossiprec.measures.communities import Communities, jaccard_communities, jaccard_communities_by_size
from gossiprec.network.graphs import centrality
from gossiprec.scenario import load_scenario
from tests.emulation.test_attack_record import N_ITEMS, N, drawn_split, ranking
from tests.emulation.test_resume import CITY
from tests.emulation.tiny_runs import SINGLE, tiny


class Phases:
    """Notes the phases of a run."""

    def __init__(self):
        self.told = []

    def phase(self, text):
        self.told.append(text)

    def tick(self, status):
        """Pass over reports."""

    def note(self, text):
        """Pass over notes."""


def test_communities_of_some_are_those_that_they_have_among_all(monkeypatch):
    split, some = drawn_split(), np.array([7, 2, 11])
    of_all = jaccard_communities(split.train, n_items=N_ITEMS, k=5)
    monkeypatch.setattr(communities, "BLOCK_CELLS", 2 * N)

    found = jaccard_communities(split.train, some, n_items=N_ITEMS, k=5)
    assert (found.membership_matrix() == of_all.membership_matrix()[some]).all()
    assert (of_all.select(some).membership_matrix() == of_all.membership_matrix()[some]).all()
    assert (of_all.select_range(2, 9).membership_matrix() == of_all.membership_matrix()[2:9]).all()
    assert len(jaccard_communities(split.train, some[:0], n_items=N_ITEMS, k=5)) == 0


def test_a_run_looks_for_the_communities_of_its_adversaries_alone(tmp_path, monkeypatch):
    asked = []

    def noted(sets, users, **options):
        asked.append(users.tolist())
        return jaccard_communities_by_size(sets, users, **options)

    monkeypatch.setattr("gossiprec.emulation.scoring.ranking_scores.jaccard_communities_by_size", noted)
    observers = [{**SINGLE, "nodes": [1, 4]}, {**SINGLE, "who": "coalition", "members": [4, 9]}]
    simulate(tiny(observers=observers), out=tmp_path / "run")
    assert asked == [[1, 4, 9]]


def test_phases_of_the_set_up_are_told_and_their_time_is_in_the_summary(tmp_path):
    progress = Phases()
    run = simulate(tiny(), out=tmp_path / "run", progress=progress)

    assert progress.told[-4:] == [
        "computing ground-truth communities",
        "initialising metrics",
        "simulating",
        "measuring positions",
    ]
    assert progress.told.index("initialising models") < progress.told.index("initialising observers")
    assert {"setup", "communities", "positions"} <= run.summary["seconds"].keys()


def test_without_attacks_no_communities_are_looked_for(tmp_path):
    progress = Phases()
    simulate(tiny(observers=[]), out=tmp_path / "run", progress=progress)
    assert not [text for text in progress.told if "communities" in text]


def test_candidates_of_a_user_do_not_depend_on_others():
    split = prepare(load_scenario(tiny())).components.split
    users = np.flatnonzero(split.test.sizes > 0)
    found = draw_candidates(split, users, 3)
    most = users[np.argmax((split.train.sizes + split.validation.sizes + split.test.sizes)[users])]
    some = users[(users == most) | (users % 2 == 0)]
    owners = np.repeat(users, split.test.sizes[users])
    assert draw_candidates(split, some, 3).tobytes() == found[np.isin(owners, some)].tobytes()
    assert (found[:, 0] == split.test.values).all()


def test_adversaries_who_come_later_have_their_communities_too():
    split = drawn_split()
    record = RankingScores(split, 5)
    record.find_communities(np.array([8, 2]))
    row = record.score([ranking(1)], time=0.0, round=0)[1]
    assert row == RankingScores(split, 5).score([ranking(1)], time=0.0, round=0)[1]
    assert record.score([ranking(1)], time=0.0, round=0)[1] == row


@pytest.mark.parametrize("world", [{}, CITY], ids=["items", "moves"])
@pytest.mark.parametrize("most", [1, 60, 150])
def test_sampled_metrics_do_not_depend_on_how_many_are_scored_at_a_time(most, world, monkeypatch):
    evaluate = {"every": 1, "metrics": ["hr@5", "ndcg@5"], "beside": ["random"]}
    prepared = prepare(load_scenario(tiny(**world, evaluate=evaluate)))
    current = np.arange(prepared.components.protocol.n_nodes)

    def measured():
        return ActiveRun(prepared, _Nowhere(), RunOptions(), read_clocks())._utility.measure(current)

    whole = measured()
    monkeypatch.setattr(utility, "MAX_CANDIDATES", most)
    assert measured() == whole
    assert len(whole) == 4


class _Nowhere:
    """Stands for the directory of a run that writes nothing."""

    log = None
    changes = ()
    path = None


@given(st.integers(0, 2**32 - 1))
def test_accuracies_do_not_depend_on_how_many_adversaries_are_ranked_at_a_time(seed):
    draw = np.random.default_rng(seed)
    scores = draw.integers(0, 4, (7, 9)).astype(np.float32)
    scores[draw.random(scores.shape) < 0.4] = np.nan
    similarity = draw.integers(0, 3, (7, 9)).astype(np.float64)
    similarity[np.arange(7), np.arange(7)] = -1.0
    truth = Communities.nearest(similarity, 3)

    def found():
        guesses = attack_accuracy.guess_top_victims(scores, 3)
        about = (scores, guesses, truth)
        return [*guesses, attack_accuracy.accuracies(*about), attack_accuracy.exposures(*about)]

    whole = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attack_accuracy, "BLOCK_CELLS", 20)
        for some, all_of in zip(found(), whole, strict=True):
            assert some == pytest.approx(all_of, nan_ok=True)


@pytest.mark.parametrize("cores", [1, 3])
def test_betweenness_is_the_same_to_the_bit_one_search_at_a_time(monkeypatch, cores):
    draw = np.random.default_rng(1)
    for n, links in ((5, 6), (60, 90), (600, 2500)):
        ends = draw.integers(0, n, (2, links))
        graph = sparse.csr_array((np.ones(links), ends), shape=(n, n))
        together = centrality.betweenness(graph, exact_up_to=100, samples=40)
        monkeypatch.setattr(centrality, "PLAIN_VISITS", 0)
        monkeypatch.setattr(centrality, "usable_cores", lambda: cores)
        assert centrality.betweenness(graph, exact_up_to=100, samples=40).tobytes() == together.tobytes()
        monkeypatch.undo()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=12))
def test_first_meetings_of_sorted_rows_are_those_of_any_others(rows):
    def met(rows):
        users, items, times = np.array(rows, np.int64).T
        data = Interactions(name="d", users=users, items=items, n_users=4, n_items=4, times=times)
        found = first_interactions(data)
        return list(zip(found.users.tolist(), found.items.tolist(), found.times.tolist(), strict=True))

    first = {}
    for user, item, time in sorted(rows):
        first.setdefault((user, item), time)
    expected = [(user, item, time) for (user, item), time in sorted(first.items())]
    assert met(rows) == expected
    assert met(expected) == expected
