"""The claims and the targets of the study, on numbers made up to hold and not to hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from study_runs import every_rule, line, one_run, some_runs

import analysis.cda_paper as ex
from analysis.cda_paper import dp_experiment
from analysis.cda_paper.figures import selectable_names
from analysis.cda_paper.report import NOT_REACHED, REACHED, judge_claims, judge_targets
from analysis.papers.claims import HELD, NOT_HELD, NOT_MEASURED, UNDECIDED, describe_margin, judge_margins
from analysis.papers.comparison import seed_differences
from analysis.papers.verdict import confidence_half_width


def verdict(runs, begin):
    (found,) = [finding for finding in judge_claims(runs) if finding.claim.startswith(begin)]
    return found


def target(runs, label):
    (found,) = [aim for aim in judge_targets(runs) if aim.label == label]
    return found


def federated(folder, aac, **more):
    return some_runs(folder, ex.ML_FEDAVG, every_rule("coordinator", aac), **more)


def federated_less(folder, aac, **more):
    return some_runs(folder, ex.ML_FEDAVG_LESS, every_rule("coordinator", aac), **more)


def gossip(folder, aac, *more_lines, **more):
    return some_runs(folder, ex.ML_RAND, [*every_rule("single", aac), *more_lines], **more)


def gossip_less(folder, aac, **more):
    return some_runs(folder, ex.ML_RAND_LESS, every_rule("single", aac), **more)


def test_without_runs_nothing_is_held_or_reached():
    assert {finding.verdict for finding in judge_claims({})} == {NOT_MEASURED}
    assert {aim.verdict for aim in judge_targets({})} == {NOT_MEASURED}


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ((1.0, 2.0, 3.0), UNDECIDED),  # mean 2, interval -0.5 to 4.5
        ((2.0, 2.5, 3.0), HELD),
        ((-2.0, -2.5, -3.0), NOT_HELD),
        ((2.0, 2.0), HELD),
        ((5.0,), UNDECIDED),  # one seed decides nothing
        ((), NOT_MEASURED),
    ],
)
def test_paired_differences_decide_where_their_interval_is_on_one_side(differences, expected):
    assert judge_margins(dict(enumerate(differences, start=1))) == expected


def test_seeds_that_differ_by_rounding_decide_nothing():
    one, other = np.mean([0.1, 0.2, 0.3]), np.mean([0.3, 0.2, 0.1])
    margins = seed_differences(dict.fromkeys((1, 2, 3), other), dict.fromkeys((1, 2, 3), one))
    assert one != other
    assert judge_margins(margins) == UNDECIDED


def test_the_interval_is_students_over_seeds():
    low, high = confidence_half_width({1: 1.0, 2: 2.0, 3: 3.0})
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 2, loc=2.0, scale=1 / np.sqrt(3)))
    assert np.isnan(confidence_half_width({1: 1.0})).all()


def test_evidence_tells_the_margin_its_interval_and_the_seeds():
    assert describe_margin({1: 2.0, 2: 2.5, 3: 3.0}) == "margin +2.5, [+1.3, +3.7] over 3 seeds: held"
    assert describe_margin({1: 2.0}) == "margin +2.0, one seed: undecided"


@pytest.mark.parametrize(("in_gossip", "expected"), [(0.15, HELD), (0.60, NOT_HELD)])
def test_federated_learning_leaks_more_than_gossip(tmp_path, in_gossip, expected):
    found = verdict(federated(tmp_path, 0.57) | gossip(tmp_path, in_gossip), "Federated")
    assert found.verdict == expected
    first, second = (f"{100 * (aac + 0.004):.1f} ± 0.5" for aac in (0.57, in_gossip))
    assert found.evidence[0].startswith(
        f"MovieLens-100k, GMF, Rand-Gossip: Max AAC {first} % in FedAvg, {second} % in gossip; margin"
    )
    assert found.evidence[0].endswith(f"over 3 seeds: {expected}")
    assert found.evidence[1] == "MovieLens-100k, GMF, Pers-Gossip: not measured"


def test_sides_are_compared_in_runs_of_the_same_seed(tmp_path):
    spread = federated(tmp_path, 0.30, seeds=3) | gossip(tmp_path, 0.29, seeds=4)
    assert (
        verdict(spread, "Federated").verdict == HELD
    )  # by 1 point in each pair, while seeds differ by as much
    alone = federated(tmp_path / "one", 0.57, seeds=1) | gossip(tmp_path / "one", 0.15)
    assert verdict(alone, "Federated").verdict == UNDECIDED


def test_one_comparison_that_fails_is_enough_for_not_held(tmp_path):
    pers = some_runs(tmp_path, ex.ML_PERS, every_rule("single", 0.6))
    assert verdict(federated(tmp_path, 0.57) | gossip(tmp_path, 0.15) | pers, "Federated").verdict == NOT_HELD


def test_a_comparison_that_is_undecided_leaves_the_claim_open(tmp_path):
    pers = some_runs(tmp_path, ex.ML_PERS, every_rule("single", 0.1), seeds=1)
    assert (
        verdict(federated(tmp_path, 0.57) | gossip(tmp_path, 0.15) | pers, "Federated").verdict == UNDECIDED
    )


@pytest.mark.parametrize(("with_less", "expected"), [(0.39, HELD), (0.60, NOT_HELD)])
def test_share_less_protects_in_federated_learning(tmp_path, with_less, expected):
    runs = federated(tmp_path, 0.57) | federated_less(tmp_path, with_less)
    assert verdict(runs, "Share less protects").verdict == expected


@pytest.mark.parametrize(
    ("with_less", "expected"), [(0.14, HELD), (0.17, HELD), (0.04, NOT_HELD), (0.30, NOT_HELD)]
)
def test_share_less_hardly_changes_gossip_in_either_direction(tmp_path, with_less, expected):
    runs = federated(tmp_path, 0.57) | federated_less(tmp_path, 0.39)
    runs |= gossip(tmp_path, 0.15) | gossip_less(tmp_path, with_less)
    assert verdict(runs, "Share less hardly").verdict == expected


@pytest.mark.parametrize(("largest", "expected"), [(0.45, HELD), (0.17, NOT_HELD)])
def test_momentum_is_what_makes_collusion_pay(tmp_path, largest, expected):
    lines = [line(f"coalition-{share}%", 0.18, momentum=0.0) for share in (5, 10, 20)]
    lines += [
        line(f"coalition-{share}%", aac)
        for share, aac in zip((5, 10, 20), (0.25, 0.31, largest), strict=True)
    ]
    assert verdict(gossip(tmp_path, 0.15, *lines), "Momentum").verdict == expected


@pytest.mark.parametrize(("largest", "expected"), [(0.45, HELD), (0.22, NOT_HELD)])
def test_more_colluders_find_more_than_fewer(tmp_path, largest, expected):
    lines = [line(f"coalition-{n}%", aac) for n, aac in ((5, 0.25), (10, 0.31), (20, largest))]
    found = verdict(gossip(tmp_path, 0.15, *lines), "More colluders")
    assert found.verdict == expected
    of_full943 = [one for one in found.evidence if one.startswith("full943, ") and NOT_MEASURED not in one]
    assert [one.partition(" %")[0] for one in of_full943] == ["full943, 5", "full943, 10", "full943, 20"]


def private(folder, points):
    """Return DP-SGD runs: epsilon to (Max AAC, HR@20)."""
    runs = {}
    for epsilon, (aac, utility) in points.items():
        runs |= some_runs(
            folder, dp_experiment("fedavg", epsilon), every_rule("coordinator", aac), utility=utility
        )
    return runs


@pytest.mark.parametrize(("at_100", "expected"), [(0.3, HELD), (0.72, NOT_HELD)])
def test_dp_costs_more_than_share_less_between_two_of_its_points(tmp_path, at_100, expected):
    runs = federated_less(tmp_path, 0.40, utility=0.60)
    runs |= private(tmp_path, {100: (0.30, at_100), None: (0.50, 0.72)})
    found = verdict(runs, "At equal leakage DP-SGD costs more utility than Share less, FedAvg")
    assert found.verdict == expected
    assert (
        f"DP-SGD: HR@20 {100 * (at_100 + 0.72) / 2:.1f} % at the same leakage, between" in found.evidence[1]
    )


def test_leakage_beyond_the_points_of_dp_is_said(tmp_path):
    runs = federated_less(tmp_path, 0.20, utility=0.60)
    runs |= private(tmp_path, {100: (0.30, 0.3), None: (0.50, 0.7)})
    found = verdict(runs, "At equal leakage DP-SGD costs more utility than Share less, FedAvg")
    assert "HR@20 30.0 % at the same leakage or the nearest that was measured" in found.evidence[1]


def test_one_point_of_dp_is_too_few(tmp_path):
    runs = federated_less(tmp_path, 0.40) | private(tmp_path, {100: (0.30, 0.3)})
    assert (
        verdict(runs, "At equal leakage DP-SGD costs more utility than Share less, FedAvg").verdict
        == NOT_MEASURED
    )


@pytest.mark.parametrize(("best", "expected"), [(0.36, HELD), (0.58, NOT_HELD)])
def test_cda_is_compared_with_the_best_threshold_of_membership_inference(tmp_path, best, expected):
    proxies = [
        line("coordinator", aac, momentum=0.0, relevance=rule)
        for rule, aac in (("mia-0.2", 0.2), ("mia-0.8", best))
    ]
    lines = [*every_rule("coordinator", 0.57), *proxies]
    runs = some_runs(tmp_path, ex.ML_FEDAVG, lines)
    found = verdict(runs, "CDA beats membership")
    assert found.verdict == expected
    assert f"{100 * best + 0.4:.1f} ± 0.5 % by membership inference" in found.evidence[0]


@pytest.mark.parametrize(
    ("aia", "seconds", "beats", "costs"), [(0.40, 50.0, HELD, HELD), (0.70, 1.0, NOT_HELD, NOT_HELD)]
)
def test_cda_is_compared_with_attribute_inference_in_accuracy_and_time(tmp_path, aia, seconds, beats, costs):
    lines = [line("coordinator", 0.62), line("coordinator", aia, relevance="aia", momentum=0.0)]
    runs = some_runs(
        tmp_path, ex.ML_AIA, lines, attack_seconds={"cda-coordinator": 2.0, "aia-coordinator": seconds}
    )
    assert verdict(runs, "CDA beats attribute").verdict == beats
    assert verdict(runs, "CDA costs less").verdict == costs


@pytest.mark.parametrize(
    ("aac", "expected"), [(0.574, REACHED), (0.50, REACHED), (0.49, NOT_REACHED), (0.66, NOT_REACHED)]
)
def test_a_target_is_reached_within_its_distance(tmp_path, aac, expected):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", aac))
    found = target(runs, "Max AAC, FedAvg, full models")
    assert (found.verdict, found.wanted, found.found) == (expected, "49.4 to 65.4 %", f"{100 * aac:.1f} %")


def test_a_missed_target_says_what_else_is_known(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.30))
    found = target(runs, "Max AAC, FedAvg, full models")
    assert found.evidence == (
        "27.0 % under ndcg; 24.0 % under mean_score; best at round 20; 27.0 % at the end; upper bound 100.0 %"
    )


def timed(folder, experiment, minutes, *, seeds=1):
    wall = 60 * minutes
    return some_runs(folder, experiment, [line("single", 0.1)], seeds=seeds, wall_seconds=wall, threads=1)


TIME_OF_THE_TABLES = "MovieLens-100k, Tables 4-10 and switches, one seed, 20 of authors100; two cores"


def test_the_time_of_the_movielens_tables_counts_every_seed_of_its_own(tmp_path):
    names = selectable_names()["movielens-tables"]
    authors = [name for name in names if "authors100" in name]
    n_runs = 20 * len(authors) + len(names) - len(authors)
    for minutes, expected in ((0.2, REACHED), (0.6, NOT_REACHED)):
        ((run,),) = (seeds.values() for seeds in timed(tmp_path / expected, names[0], minutes).values())
        runs = {name: dict.fromkeys(range(1, 21 if name in authors else 3), run) for name in names}
        found = target(runs, TIME_OF_THE_TABLES)
        assert (found.verdict, found.found) == (
            expected,
            f"{minutes * n_runs / 2:.1f} min",
        )  # one thread of two cores


def test_a_time_that_is_not_whole_is_no_success_but_can_be_a_failure(tmp_path):
    assert target(timed(tmp_path, ex.ML_FEDAVG, 1.0), TIME_OF_THE_TABLES).verdict == NOT_MEASURED
    slow = timed(tmp_path / "slow", ex.ML_FEDAVG, 60.0)
    assert target(slow, TIME_OF_THE_TABLES).verdict == NOT_REACHED


def test_speeds_are_those_of_the_data_plane(tmp_path):
    runs = gossip(tmp_path, 0.15, seconds={"compute": 10.0}, node_updates=1000, seeds=1)
    runs |= one_run(tmp_path, ex.ML_PERS, [line("single", 0.1)], seconds={"compute": 40.0}, node_updates=1000)
    found = target(runs, "Pers-Gossip over Rand-Gossip, local epochs/s")
    assert (found.verdict, found.found) == (NOT_REACHED, "0.25")


def test_the_cost_of_the_attack_is_set_against_everything_else(tmp_path):
    runs = one_run(
        tmp_path, dp_experiment("rand-gossip", None), [line("single", 0.1)],
        wall_seconds=70.0, seconds={"compile": 10.0, "compute": 40.0}, attack_seconds={"cda-single": 40.0}, threads=2,
    )  # fmt: skip
    found = target(runs, "All 943 adversaries over the simulation without them, thread time")
    assert (found.verdict, found.found) == (REACHED, "0.50")
