"""Findings of attacks from the report to the files: one path, whatever their labels."""

import csv
import json

import numpy as np
import pytest
from rich.console import Console

from gossiprec.adversaries.attacks import ATTACKS, MembershipGuesses
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.cli.summary_text import finding_table
from gossiprec.emulation import simulate
from gossiprec.emulation.run.run_replay import replay
from gossiprec.emulation.scoring.attack_results import AttackResults, membership_metric_rows
from gossiprec.emulation.scoring.judges import Truth
from gossiprec.emulation.scoring.ranking_scores import RankingScores
from gossiprec.measures.selectors import FILTERS, MeasureSelector
from gossiprec.study.study_table import extract_rows
from tests.attacks.glimpses import guess_rates
from tests.emulation.counting_attack import Counting
from tests.emulation.ended_early import often
from tests.emulation.guessing_attack import Guessing
from tests.emulation.test_attack_record import drawn_split
from tests.emulation.test_resume import check
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, tiny

COUNTING = {"name": "counting", "least": [1, 4]}
MIA = {"name": "entropy-mia", "who": "coordinator", "community_size": 3, "threshold": [0.2, 0.9]}
FEDAVG = {"name": "fedavg", "rounds": 4}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(ATTACKS._members, "counting", Counting)


def rows_of(run):
    with (run.path / "findings.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_findings_are_tidy_rows_with_labels_of_their_own(tmp_path):
    run = simulate(tiny(observers=[SINGLE, COUNTING]), out=tmp_path / "run")
    rows = rows_of(run)
    message = run.events("message")
    assert len(rows) == 2 * len(set(run.metrics["time"].tolist()))
    for row in rows:
        labels = json.loads(row["labels"])
        assert labels == {"observer": "everybody", "least": labels["least"]}
        got = np.bincount(message["receiver"][message["time"] <= float(row["time"])], minlength=12)
        assert float(row["value"]) == (got >= labels["least"]).mean()
        assert (row["attack"], row["measure"]) == ("counting", "heard")
    assert run.findings["labels"].tolist() == [row["labels"] for row in rows]
    assert run.summary["findings"] == [
        {"attack": "counting", "measure": "heard", "labels": json.loads(row["labels"]), "round": int(row["round"]),
         "value": float(row["value"])}
        for row in rows[-2:]
    ]  # fmt: skip
    assert {row["observer"] for row in run.summary["attacks"]} == {"single"}


def test_values_of_nodes_are_among_the_positions(tmp_path):
    run = simulate(tiny(observers=[COUNTING]), out=tmp_path / "run")
    of_nodes = run.positions["measure"] == "heard[counting/everybody/least=4]"
    received = run.positions["measure"] == "received"
    assert of_nodes.sum() == 12
    assert (run.positions["value"][of_nodes] == run.positions["value"][received]).all()


@pytest.mark.slow
@pytest.mark.full
def test_a_run_of_an_attack_with_findings_alone_is_resumed_and_replayed(tmp_path):
    whole, done = check(tmp_path, often(observers=[COUNTING]))
    assert len(rows_of(done)) == 2 * len(set(done.metrics["time"].tolist()))
    assert done.summary["findings"] == whole.summary["findings"]
    assert replay(whole.path).confirmed
    table = whole.path / "findings.csv"
    table.write_text(table.read_text().replace(",heard,", ",hoard,", 1))
    assert "findings.csv, line 2: " in replay(whole.path).difference


@pytest.mark.slow
def test_a_run_from_before_there_were_findings_is_replayed(tmp_path):
    run = simulate(tiny(), out=tmp_path / "run")
    (run.path / "findings.csv").unlink()
    assert run.findings == {}
    assert replay(run.path).confirmed


def test_rates_of_guesses_take_the_same_path(tmp_path):
    run = simulate(tiny(protocol=FEDAVG, observers=[COORDINATOR, MIA]), out=tmp_path / "run")
    found = {(row["round"], row["measure"], row["labels"]): row["value"] for row in rows_of(run)}
    assert len(found) == 2 * 2 * 3  # reports, thresholds, rates
    for (round_, measure, labels), value in found.items():
        about = json.loads(labels)
        name = f"{measure}[coordinator,b{about['momentum']:g},{about['relevance'].removeprefix('mia-')}]"
        same = (run.metrics["metric"] == name) & (run.metrics["round"] == int(round_))
        assert [repr(v) for v in run.metrics["value"][same].tolist()] == ([value] if value != "nan" else [])
    kept = {
        (line["labels"]["relevance"], line["measure"], line["round"]): line["value"]
        for line in run.summary["findings"]
    }
    assert kept == {
        (f"mia-{line['threshold']:g}", f"mia_{rate}", line["round"]): line[rate]
        for line in run.summary["membership"]
        for rate in ("accuracy", "precision", "recall")
    }


def test_the_summary_keeps_guesses_of_the_best_round_and_other_findings_of_the_last():
    record = AttackResults(Truth(drawn_split()))
    for round_, value in ((1, 0.9), (2, 0.1)):
        rows = record.note(
            [("counting", Finding("heard", {"least": 3}, value))], time=float(round_), round=round_
        )
        assert [row["value"] for row in rows] == [value]
    assert [(row["round"], row["value"]) for row in record.summary()["findings"]] == [(2, 0.1)]
    other = AttackResults(Truth(drawn_split()))
    other.restore(record.state())
    assert other.summary() == record.summary()


class BestIn(RankingScores):
    """Stands for rankings that were best in one round."""

    def __init__(self, split, round_):
        super().__init__(split)
        self._round = round_

    def best_round(self, labels):
        return self._round


def test_of_guesses_the_summary_keeps_those_of_the_round_in_which_their_ranking_was_best():
    split, values = drawn_split(), {}
    record = AttackResults(Truth(split))
    record.rankings = BestIn(split, 2)
    for round_, entropies in ((1, 0.9), (2, 0.1), (3, 0.9)):  # nothing is taken for a member, or everything
        guesses = MembershipGuesses(
            observer="coordinator", momentum=0.9, thresholds=(0.5,), adversaries=np.array([0]),
            offsets=np.array([0, 8]), items=split.train[0], victims=np.arange(1, split.n_users),
            entropies=np.full((split.n_users - 1, split.n_items), entropies, np.float32),
            hidden=np.zeros(0, np.int64), hidden_entropies=lambda a: np.zeros((0, 8), np.float32),
        )  # fmt: skip
        rows = record.note([("entropy-mia", guesses)], time=1.0, round=round_)
        values[round_] = {row["measure"]: row["value"] for row in rows}
    assert values[1]["mia_recall"] == 0.0 != values[2]["mia_recall"] == 1.0
    summary = record.summary()
    assert {row["measure"]: row["value"] for row in summary["findings"]} == values[2]
    assert [(line["round"], line["recall"]) for line in summary["membership"]] == [(2, 1.0)]


def test_findings_that_cannot_be_told_apart_are_refused():
    record = AttackResults(Truth(drawn_split()))
    one = ("counting", Finding("heard", {"least": 3}, 0.5))
    other = ("counting", Finding("heard", {"least": 4}, 0.5))
    record.note([one, other, ("another", one[1])], time=1.0, round=1)
    with pytest.raises(
        ScenarioError, match=r"two findings have the same name heard\[counting/least=3\]; change an option"
    ):
        record.note([one, other, one], time=2.0, round=2)


def test_a_finding_that_the_attack_does_not_announce_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Counting, "measures", ("hoard",))
    with pytest.raises(ScenarioError, match="counting reports heard, which no study can collect"):
        simulate(tiny(observers=[COUNTING]), out=tmp_path / "run")


@pytest.mark.slow
def test_a_run_without_findings_has_an_empty_table(tmp_path):
    run = simulate(tiny(), out=tmp_path / "run")
    assert (run.path / "findings.csv").read_text() == "time,round,attack,measure,labels,value\n"
    assert not {"findings", "membership"} & set(run.summary)


def test_guesses_without_a_ranking_are_in_the_summary_the_table_and_studies(tmp_path, monkeypatch):
    monkeypatch.setitem(ATTACKS._members, "guessing", Guessing)
    run = simulate(tiny(protocol=FEDAVG, observers=[{"name": "guessing"}, COORDINATOR]), out=tmp_path / "run")
    labels = {"observer": "hub", "relevance": "mia-0.5", "momentum": 0.0}
    kept = {row["measure"]: row["value"] for row in run.summary["findings"]}
    assert kept.keys() == {"mia_accuracy", "mia_precision", "mia_recall"}
    assert all(0 <= value <= 1 for value in kept.values())
    assert [row["labels"] for row in run.summary["findings"]] == 3 * [labels]
    assert {row["round"] for row in run.summary["findings"]} == {4}
    assert run.summary["membership"][0]["precision"] == kept["mia_precision"]
    table = Console(width=100)
    with table.capture() as shown:
        table.print(finding_table(run.summary["findings"]))
    assert f"{kept['mia_precision']:.4g}" in shown.get()
    assert "observer hub, relevance mia-0.5" in shown.get()
    ranked = [tuple(row[name] for name in FILTERS) for row in run.summary["attacks"]]
    for keys in (None, ranked):  # whatever else there is, none of whose labels these guesses have
        rows = extract_rows(run.summary, [], keys, [MeasureSelector("mia_recall")], {"guessing", "cda"})
        assert [row["value"] for row in rows] == [kept["mia_recall"]]
    assert extract_rows(run.summary, [], ranked, [MeasureSelector("mia_recall")], {"cda"}) == []


def test_rates_of_guesses_at_any_items_are_shares_pair_by_pair():
    """Adversaries ask about whatever items they choose, each of everybody but itself."""
    draw, n_items = np.random.default_rng(3), 9
    train = Ragged.sets_from_pairs(*np.nonzero(draw.random((5, n_items)) < 0.4), 5)
    owned = {(u, i) for u in range(5) for i in train[u].tolist()}
    asked = [draw.choice(n_items, 6, replace=False).astype(np.int32) for _ in range(3)]
    victims, adversaries = np.array([0, 2, 3]), np.array([0, 1, 4])
    entropies = draw.random((3, n_items)).astype(np.float32)
    hidden = np.array([1, 4])
    apart = {a: draw.random((2, 6)).astype(np.float32) for a in range(3)}
    guesses = MembershipGuesses(
        "hub", 0.0, (0.5,), adversaries, np.array([0, 6, 12, 18]), np.concatenate(asked), victims, entropies,
        hidden, apart.__getitem__,
    )  # fmt: skip
    pairs = [
        (entropies[row, item] < 0.5, (victim, item) in owned)
        for adversary, items in zip(adversaries.tolist(), asked, strict=True)
        for row, victim in enumerate(victims.tolist())
        for item in items.tolist()
        if victim != adversary
    ] + [
        (apart[a][row, place] < 0.5, (victim, item) in owned)
        for a, items in enumerate(asked)
        for row, victim in enumerate(hidden.tolist())
        for place, item in enumerate(items.tolist())
        if victim != adversaries[a]
    ]
    [row] = guess_rates(train, n_items, guesses)
    guessed, members = (sum(pair[k] for pair in pairs) for k in (0, 1))
    right = sum(guess and member for guess, member in pairs)
    assert row["accuracy"] == np.mean([guess == member for guess, member in pairs])
    assert row["precision"] == right / guessed
    assert row["recall"] == right / members


def test_guesses_at_what_does_not_exist_are_refused():
    split = drawn_split()
    zeros = lambda n: np.zeros((n, split.n_items), np.float32)  # noqa: E731
    for changes, words in (
        ({"items": np.array([split.n_items])}, r"hub guesses item 30; expected 0 to 29"),
        ({"items": np.array([1, 2])}, r"expected 2 ascending offsets, from 0 to the number of items"),
        ({"adversaries": np.array([0, 2]), "offsets": np.array([0, 2, 1])}, r"expected 3 ascending offsets"),
        ({"victims": np.array([99])}, r"hub guesses about victim 99; expected 0 to \d+"),
        ({"hidden": np.array([-1])}, r"hub guesses about victim -1"),
        ({"victims": np.array([1, 1]), "entropies": zeros(2)}, r"hub guesses about a victim twice"),
        ({"entropies": zeros(2)}, r"entropies of shape \(2, 30\); expected \(1, 30\)"),
        ({"hidden": np.array([1])}, r"hub guesses about a victim twice"),
        (
            {"hidden": np.array([2]), "hidden_entropies": zeros},
            r"hidden entropies of shape \(0, 30\); expected \(1, 1\)",
        ),
        (
            {"items": np.array([3, 3]), "offsets": np.array([0, 2])},
            r"hub guesses with an item of an adversary twice",
        ),
        (
            {"adversaries": np.array([2, 2]), "offsets": np.array([0, 1, 2]), "items": np.array([3, 3])},
            r"hub guesses with an adversary twice",
        ),
    ):
        whole = {
            "observer": "hub", "momentum": 0.0, "thresholds": (0.5,), "adversaries": np.array([0]),
            "offsets": np.array([0, 1]), "items": np.array([1]), "victims": np.array([1]), "entropies": zeros(1),
        }  # fmt: skip
        guesses = MembershipGuesses(**{**whole, **changes})
        with pytest.raises(ScenarioError, match=words):
            guess_rates(split.train, split.n_items, guesses)


def test_a_finding_that_an_attack_calls_a_rate_itself_is_no_metric():
    rows = [{"measure": "mia_recall", "labels": {"least": 3}, "value": 0.5}]
    assert list(membership_metric_rows(rows)) == []
