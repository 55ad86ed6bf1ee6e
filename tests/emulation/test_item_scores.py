"""Scores of single items: joined with the truth, checked, and in every file and page that has findings."""

import csv
import json

import numpy as np
import pytest
from rich.console import Console

from gossiprec.adversaries.attacks import ATTACKS, ITEM_MEASURES, Attack, ItemScores
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.cli.main import exit_code
from gossiprec.cli.summary_text import finding_tables
from gossiprec.emulation import simulate
from gossiprec.emulation.scoring.attack_results import AttackResults
from gossiprec.emulation.scoring.item_scores import check_item_scores
from gossiprec.emulation.scoring.judges import Truth
from gossiprec.figures import curves
from gossiprec.measures.selectors import FILTERS, MeasureSelector
from gossiprec.study.study_table import extract_rows
from tests.emulation.test_attack_record import drawn_split
from tests.emulation.tiny_runs import tiny

FEDAVG = {"name": "fedavg", "rounds": 4}
MIA = {"name": "entropy-mia", "community_size": 3, "threshold": 0.4, "item_scores": True, "precision_at": 4}


def results(found, split):
    record = AttackResults(Truth(split))
    rows = record.note([("scoring", found)], time=1.0, round=1)
    return {row["measure"]: row["value"] for row in rows}, record


def all_pairs(split, victims, score):
    """Return the scores of all items of some victims."""
    n_items = split.n_items
    owners, items = np.repeat(victims, n_items), np.tile(np.arange(n_items, dtype=np.int32), len(victims))
    is_member = np.array([item in split.train[owner] for owner, item in zip(owners, items, strict=True)])
    return ItemScores(owners, items, score(is_member), {"observer": "hub"}, k=5)


def test_an_attack_that_knows_everything_and_one_that_knows_nothing():
    split, victims = drawn_split(), np.arange(2, 6)
    perfect, _ = results(all_pairs(split, victims, lambda member: member.astype(np.float32)), split)
    ignorant, record = results(all_pairs(split, victims, lambda member: np.zeros(len(member))), split)

    sizes = np.array([len(split.train[victim]) for victim in victims])
    share = sizes.mean() / split.n_items
    assert perfect == dict.fromkeys(ITEM_MEASURES, 1.0) | {
        "item_members": pytest.approx(share),
        "item_precision": pytest.approx(np.minimum(sizes, 5).mean() / 5),
    }
    assert ignorant["item_auc"] == 0.5
    assert ignorant["item_precision"] == pytest.approx(share)
    assert (ignorant["item_tpr_at_1"], ignorant["item_tpr_at_0.1"]) == pytest.approx((0.01, 0.001))
    [(name, nodes, values)] = record.values_per_node()
    assert name == "item_precision[scoring/hub/k=5]"
    assert nodes.tolist() == victims.tolist()
    assert values == pytest.approx(sizes / split.n_items)


def test_adversaries_on_their_own_may_score_a_pair_each():
    split = drawn_split()
    both = ItemScores(
        np.array([1, 1, 1, 1, 0, 0]), np.array([0, 1, 0, 1, 0, 1], np.int32), np.arange(6.0), {}, 1,
        adversaries=np.array([0, 0, 2, 2, 2, 2]),
    )  # fmt: skip

    check_item_scores("observers: own", both, (split.n_users, split.n_items), np.array([0, 2]))
    _, record = results(both, split)

    [(_, nodes, _)] = record.values_per_node()
    assert nodes.tolist() == [0, 1]


def test_victims_with_few_scores_are_left_out_and_the_run_says_so():
    split = drawn_split()
    few = ItemScores(np.array([1, 1, 2]), np.array([0, 1, 0], np.int32), np.arange(3.0), {}, 1)

    found, record = results(few, split)

    assert found["item_precision"] == float(1 in split.train[1])
    assert record.notes() == [
        "item_precision[scoring/k=1]: of 1 of 2 victims no more than k items are scored, so they are left out"
    ]


ONE = {"victims": np.array([1]), "items": np.array([2], np.int32), "scores": np.array([0.5])}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"scores": np.array([np.nan])}, r"the score of victim 1 and item 2 is NaN; expected a number; leave out"),
        ({"items": np.array([30], np.int32)}, "names item 30; expected 0 to 29"),
        ({"items": np.array([-1], np.int32)}, "names item -1; expected 0 to 29"),
        ({"victims": np.array([40])}, "names victim 40; expected 0 to"),
        ({"victims": np.array([3])}, "victim 3 is a node of the attack itself, which knows its items; expected other"),
        ({"adversaries": np.array([1])}, "names adversary 1, which is no node of the attack"),
        ({"adversaries": np.array([3]), "victims": np.array([3])}, "victim 3 is a node of the attack itself"),
        ({"items": np.array([2, 3])}, r"shapes {'victims': \(1,\), 'items': \(2,\), 'scores': \(1,\)}; expected one"),
        ({name: np.repeat(column, 2) for name, column in ONE.items()}, "names a victim and item twice"),
        ({"k": 0}, "k = 0; expected at least 1"),
    ],
)  # fmt: skip
def test_scores_that_cannot_be_joined_with_the_truth_are_refused(changed, words):
    split = drawn_split()

    with pytest.raises(ScenarioError, match=f"observers: own: .*{words}"):
        check_item_scores(
            "observers: own", ItemScores(**{**ONE, **changed}), (split.n_users, split.n_items), np.array([3])
        )


@pytest.mark.slow
def test_scores_of_items_are_in_all_files_tables_studies_and_pictures(tmp_path):
    groups = {"groups": {"by": "activity", "parts": 2}}
    run = simulate(
        tiny(protocol=FEDAVG, observers=[{**MIA, "who": "coordinator"}], evaluate=groups),
        out=tmp_path / "run",
    )
    labels = {"observer": "coordinator", "momentum": 0.99, "k": 4}
    found = {row["measure"]: row for row in run.summary["findings"] if row["labels"] == labels}

    assert set(ITEM_MEASURES) <= found.keys()
    assert all(0 <= row["value"] <= 1 for row in found.values())
    assert found["item_auc"]["value"] > 0.5
    of_groups = [row for row in run.summary["findings"] if row["measure"] == "group_item_auc"]
    assert len(of_groups) == 2
    assert "item_precision[entropy-mia/coordinator/b0.99/k=4]" in set(run.positions["measure"].tolist())
    table = Console(width=100)
    with table.capture() as shown:
        for each in finding_tables(run.summary["findings"]):
            table.print(each)
    assert f"{found['item_auc']['value']:.4g}" in shown.get()
    keys = [tuple(row[name] for name in FILTERS) for row in run.summary["attacks"]]
    rows = extract_rows(run.summary, [], keys, [MeasureSelector("item_auc")], {"entropy-mia"})
    assert [(row["value"], json.loads(row["labels"])) for row in rows] == [
        (found["item_auc"]["value"], {"k": 4})
    ]
    drawn = curves.draw([run], tmp_path / "curves")
    with drawn[0].open() as file:
        points = [row for row in csv.DictReader(file) if row["quantity"] == "item_auc[k=4]"]
    assert [float(row["value"]) for row in points][-1] == pytest.approx(found["item_auc"]["value"])
    assert exit_code(["report", str(run.path), "--out", str(tmp_path / "page.html")]) == 0
    assert "item_average_precision" in (tmp_path / "page.html").read_text()


def test_scores_by_single_nodes_are_refused():
    with pytest.raises(
        ScenarioError, match="item_scores with who: single, which keeps too little of a model"
    ):
        simulate(tiny(observers=[{**MIA, "who": "single"}]), out="unused")


def test_a_coalition_scores_no_items_of_its_members(tmp_path):
    run = simulate(
        tiny(observers=[{**MIA, "who": "coalition", "members": [0, 1, 2, 5]}]), out=tmp_path / "run"
    )
    name = "item_precision[entropy-mia/coalition-4-nodes/b0.99/k=4]"
    nodes = run.positions["node"][run.positions["measure"] == name]

    assert len(nodes)
    assert not {0, 1, 2, 5} & set(nodes.tolist())


class Scoring(Attack):
    """Node 0 scores one pair, whose victim an option names."""

    class Options(Options):
        victim: int = 1
        score: float | None = 0.5

    measures = ITEM_MEASURES

    @property
    def nodes(self):
        return np.array([0])

    def observe(self, seen):
        """Learn nothing."""

    def item_scores(self):
        score = np.nan if self.options.score is None else self.options.score
        yield ItemScores(np.array([self.options.victim]), np.array([0], np.int32), np.array([score]))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"victim": 0}, "victim 0 is a node of the attack itself"), ({"score": None}, "is NaN")],
)
def test_a_run_refuses_them_with_the_name_of_the_attack(tmp_path, monkeypatch, options, words):
    monkeypatch.setitem(ATTACKS._members, "scoring", Scoring)
    with pytest.raises(ScenarioError, match=f"observers: scoring: .*{words}"):
        simulate(tiny(observers=[{"name": "scoring", **options}]), out=tmp_path / "run")
