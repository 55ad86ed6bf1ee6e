"""What the PerFedRec++ study says of runs whose numbers are known."""

from __future__ import annotations

import csv

import pytest
from matplotlib.figure import Figure

from analysis.papers.claims import HELD, NOT_HELD, NOT_MEASURED, UNDECIDED, printed_orders
from analysis.papers.comparison import BEST, LAST, has_converged, reported_epochs
from analysis.perfedrec_pp import (
    PAPER,
    PRICE,
    REPORT,
    STUDY,
    count_groups,
    group_gain,
    interaction_range,
    paper_figures,
)
from tests.analysis.cl_runs import runs_of
from tests.analysis.pp_runs import by_activity, risen, told_by_seed

pytestmark = pytest.mark.slow

MIX_GAINS = (0.02, 0.01, -0.01)
"""By how much the mix is ahead in each group, at the chosen report; at the last it is 0.005 ahead in all."""


def groups(gains, last, seed):
    """Return a summary in which a seed's groups lie at 0.05 and what they gain."""
    return by_activity(
        [0.05 + gain + 0.0001 * seed for gain in gains], [0.04 + last + 0.0001 * seed] * 3, seed
    )


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Federated rows, of which PerFedRec++ still rises, a centralised one, an ablation, a sweep; and the report."""
    folder = tmp_path_factory.mktemp("pp")
    told = {
        "paper-fedgnn": risen(0.06),
        "paper-perfedrec": risen(0.055),
        "paper-fedmf": risen(0.03, falls=False),
        "paper-lightgcn": risen(0.1),
        "paper-no-clusters": risen(0.049),
        "scaled-perfedrec-pp": risen(0.05),
        "scaled-noise-0": risen(0.04),
        "scaled-noise-0.3": risen(0.02),
        "scaled-views-mix": risen(0.055),
        "authors_code-perfedrec-pp": risen(0.03),
    }
    runs = runs_of(folder, told)
    mix = [groups(MIX_GAINS, 0.005, seed) for seed in (1, 2, 3)]
    alone = [groups((0, 0, 0), 0, 2 * seed) for seed in (1, 2, 3)]
    runs |= told_by_seed(folder, "paper-perfedrec-pp", risen(0.05), mix)
    runs |= told_by_seed(folder, "paper-global", risen(0.045), alone)
    REPORT.write(folder, runs, {}, planned=3 * len(STUDY.experiments), epochs=3)
    return folder, runs


def claim(runs, begin):
    """Return the one claim that begins so."""
    (found,) = [one for one in REPORT.judge_claims(runs) if one.claim.startswith(begin)]
    return found


def test_an_improvement_is_judged_at_equal_rounds_and_after_convergence(known):
    runs = known[1]
    equal = claim(runs, "PerFedRec++ recommends better than FedMF, at equal rounds")
    assert equal.verdict == NOT_HELD  # 0.025 against 0.045, both at round 3
    assert equal.evidence[0].startswith(
        "paper: Recall@20: perfedrec-pp 0.0251, fedmf 0.0451 (-44.5 %, printed +21.1 %); margin -0.0201"
    )
    best = claim(runs, "PerFedRec++ recommends better than FedMF, after convergence")
    assert best.verdict == HELD  # 0.05 at round 2 against 0.045 at round 3
    assert claim(runs, "PerFedRec++ recommends better than FedGNN, after").verdict == NOT_HELD
    assert (
        claim(runs, "PerFedRec++ recommends better than FedGNN, after")
        .evidence[1]
        .startswith("paper: NDCG@20: perfedrec-pp 0.1001, fedgnn 0.1201 (-16.7 %, printed +16.2 %)")
    )


def test_a_row_that_still_rises_is_told(known):
    runs = known[1]
    said = claim(runs, "PerFedRec++ recommends better than FedMF, after").evidence[0]
    assert "(fedmf best at the last report: perhaps not converged)" in said
    assert "converged" not in claim(runs, "PerFedRec++ recommends better than FedMF, at").evidence[0]
    assert "converged" not in claim(runs, "PerFedRec++ recommends better than FedGNN, after").evidence[0]
    assert has_converged(PAPER, runs, "paper-fedgnn")
    assert not has_converged(PAPER, runs, "paper-fedmf")
    assert not has_converged(PAPER, runs, "authors_code-fedmf"), "of what was not run nothing is known"


def test_ablations_are_judged_against_the_whole(known):
    runs = known[1]
    found = claim(runs, "Table 5, after convergence: with no clustering")
    assert found.verdict == HELD
    assert found.evidence[0].startswith("paper: Recall@20: perfedrec-pp 0.0501, no-clusters 0.0491 (+2.0 %")
    assert claim(runs, "Table 5, at equal rounds: with no pre-training").verdict == NOT_HELD
    assert claim(runs, "Table 5, after convergence: with no personalisation").verdict == HELD


def test_what_noise_and_views_do_is_judged_neighbour_by_neighbour(known):
    runs = known[1]
    noise = claim(runs, "Not in the paper: less noise")
    assert [line.partition(";")[0] for line in noise.evidence] == [
        "scaled: Recall@20: noise-0 0.0401, perfedrec-pp 0.0501 (-20.0 %)",
        "scaled: Recall@20: perfedrec-pp 0.0501, noise-0.3 0.0201 (+149.3 %)",
    ]
    assert [line.rpartition(": ")[2] for line in noise.evidence] == [NOT_HELD, HELD]
    assert noise.verdict == NOT_HELD
    assert claim(runs, "Not in the paper: views").verdict == HELD


def test_the_price_of_federation_is_read_at_the_best_epoch_of_each(known):
    folder, runs = known
    paper, authors = (
        {row.row: row for row in PRICE.rows_in(setting)} for setting in ("paper", "authors_code")
    )
    assert PRICE.kept_utility(runs, paper["FedGNN"], "Recall@20") == pytest.approx(
        {1: 100 * 0.06 / 0.1, 2: 100 * 0.0601 / 0.1001, 3: 100 * 0.0602 / 0.1002}
    )
    assert PRICE.kept_utility(runs, authors["PerFedRec++"], "Recall@20")[1] == pytest.approx(30)
    assert PRICE.kept_utility(runs, paper["FedMF"], "Recall@20") == {}, "centralised MF was not run"
    assert PRICE.printed_kept_utility("paper", paper["PerFedRec++"], "Recall@20") == pytest.approx(
        100 * 0.0534 / 0.069
    )
    below = claim(runs, "Federated rows stay below")
    assert below.verdict == HELD
    assert below.evidence[0].startswith("paper: Recall@20: paper-lightgcn 0.1001, fedgnn 0.0601 (+66.6 %);")
    page = (folder / "report.md").read_text()
    price = page.split("## The price of federation")[1].split("## Who gains")[0]
    (line,) = [one for one in price.splitlines() if one.startswith("| FedGNN | LightGCN | no |")]
    assert "| 60 ± 0; n = 3 | 66 |" in line
    assert "| FedMF | MF | yes |" in price


def test_centralised_rows_are_compared_at_their_best_epoch_alone(known):
    runs = known[1]
    found = {order.text: order for order in printed_orders(PAPER, "paper")}
    other = {**runs, "paper-mf": runs["paper-lightgcn"]}
    order = found["Table 4, Recall@20: MF over PerFedRec++"]
    assert order.margins(PAPER, other, "paper", LAST) == {}
    assert order.margins(PAPER, other, "paper", BEST) == pytest.approx({1: 0.05, 2: 0.05, 3: 0.05})
    federated = found["Table 4, Recall@20: PerFedRec++ over FedGNN"]
    assert federated.margins(PAPER, runs, "paper", LAST) == pytest.approx(dict.fromkeys((1, 2, 3), -0.005))
    assert reported_epochs(PAPER, runs, "paper-fedmf", PAPER.point_at_printed_value) == {1: 2, 2: 2, 3: 2}
    assert reported_epochs(PAPER, runs, "paper-lightgcn", PAPER.point_at_printed_value) == {}


def test_gains_are_told_and_judged_by_activity(known):
    folder, runs = known
    assert count_groups(runs, "paper") == 3
    assert [interaction_range(runs, "paper", group) for group in range(3)] == [
        "2 to 6",
        "4 to 12",
        "10 to 43",
    ]
    assert group_gain(runs, "paper", 0, BEST) == pytest.approx({1: 0.0199, 2: 0.0198, 3: 0.0197})
    assert group_gain(runs, "paper", 2, LAST) == pytest.approx({1: 0.0049, 2: 0.0048, 3: 0.0047})
    every = claim(runs, "Not in the paper: personal models help every group")
    assert every.verdict == NOT_HELD
    assert [line.rpartition(": ")[2] for line in every.evidence] == [HELD, HELD, NOT_HELD]
    assert every.evidence[1].startswith(
        "paper: users with 4 to 12 interactions, Recall@20 0.0602; margin +0.0098"
    )
    ends = claim(runs, "Not in the paper: they help the least active group more")
    assert ends.verdict == HELD
    assert ends.evidence[0].startswith("paper: gains of Recall@20: +0.0198 and -0.0102")
    page = (
        (folder / "report.md")
        .read_text()
        .split("## Users who gain from personal models")[1]
        .split("## Times")[0]
    )
    assert "| 1 | 2 to 6 | 0.0452 ± 0.0002; n = 3 | 0.0404 ± 0.0005; n = 3 | 0.0048" in page
    assert "| 3 | 10 to 43 |" in page
    assert "authors_code" not in page


def test_gains_are_drawn_by_group(known):
    with (known[0] / "figures" / "deciles-paper.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["panel"] == f"gain, {BEST}"]
    assert [float(row["group"]) for row in rows] == [1, 2, 3]
    assert [float(row["%"]) for row in rows] == pytest.approx([1.98, 0.98, -1.02])


def test_losses_are_in_sight():
    axes = Figure().add_subplot()
    axes.plot([1, 2], [3.0, 1.0])
    axes.fill_between([1, 2], [2.5, -2.0], [3.5, 4.0])
    axes.set_ylim(0, 4)
    paper_figures()["deciles-paper"].look["dress"](axes)
    assert axes.get_ylim()[0] < -2 < 4 <= axes.get_ylim()[1]


def test_the_curves_of_federated_rows_have_the_centralised_one_beside_them(known):
    with (known[0] / "figures" / "table4-paper.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["panel"] == "Recall@20"]
    own = {(row["line"], row["kind"], row["epoch"]): float(row["%"]) for row in rows}
    assert own["PerFedRec++", "", "2.0"] == pytest.approx(5.01)
    assert own["PerFedRec++", "print", "3.0"] == pytest.approx(5.34)
    assert own["LightGCN, centralised", "level", "3.0"] == pytest.approx(10.01)
    assert not any(line == "LightGCN" for line, *_ in own), "its epochs are no rounds"


@pytest.mark.full
def test_runs_that_tell_of_no_groups_are_compared_otherwise(known, tmp_path):
    runs = known[1]
    old = {**runs, "paper-global": runs["paper-fedgnn"]}
    assert count_groups(old, "paper") == 0
    assert count_groups({"paper-perfedrec-pp": runs["paper-perfedrec-pp"]}, "paper") == 0, (
        "with nothing beside it"
    )
    assert claim(old, "Not in the paper: personal models help every group").verdict == NOT_MEASURED
    assert claim(old, "Table 5, after convergence: with no personalisation").verdict == NOT_HELD
    REPORT.write(tmp_path, old, {}, planned=81, epochs=3)
    assert "Users who gain from personal models" not in (tmp_path / "report.md").read_text()
    assert not (tmp_path / "figures" / "deciles-paper.png").exists()


def test_one_seed_decides_nothing(tmp_path):
    runs = runs_of(
        tmp_path, {"paper-perfedrec-pp": risen(0.05, seeds=1), "paper-fedgnn": risen(0.04, seeds=1)}
    )
    assert claim(runs, "PerFedRec++ recommends better than FedGNN, after").verdict == UNDECIDED


def test_a_table_of_which_nothing_is_printed_shows_its_rows(known):
    page = (known[0] / "report.md").read_text()
    table = page.split("### Table 5: Ablations")[1].split("## Figures")[0]
    assert "| no clustering | – |" in table
    assert "| PerFedRec++ | – | 0.0251" in table
    (printed, *_) = [line for line in page.splitlines() if line.startswith("| FedMF | 0.04410 |")]
    assert printed.startswith(
        "| FedMF | 0.04410 | ✓ 0.0451 ± 0.0004; n = 3; epoch 3 | ✗ 0.0301 ± 0.0002; n = 3; epoch 2 |"
    )


def test_a_report_can_be_had_of_nothing(tmp_path):
    REPORT.write(tmp_path, {}, dict.fromkeys(STUDY.experiments, "not run yet"), planned=81, epochs=300)
    page = (tmp_path / "report.md").read_text()
    assert "0 of 81 runs, of 300 epochs each, are finished" in page
    assert "The price of federation" not in page
