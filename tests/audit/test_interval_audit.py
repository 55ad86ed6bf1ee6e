"""Intervals in tables of studies, in comparisons, and of attacks, against plain numpy; and planted faults.

Student's quantile comes from a numerical integral of the density. Intervals by bootstrap are compared with one of
100,000 other resamples: an end by 2,000 resamples has a standard error of sqrt(.025 * .975 / 2000) / .0584 = 0.06
standard errors of the mean (.0584 is the normal density at 1.96), so a quarter of a standard error is four of them.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import gossiprec
from gossiprec.base.rng import generator
from gossiprec.emulation import simulate
from gossiprec.emulation.scoring import attribute_scores, item_scores, utility
from gossiprec.figures.study import draw, estimates, paper_table
from gossiprec.figures.study.table_reader import read_study
from gossiprec.runs import paired_tests
from gossiprec.study.api import open_study
from gossiprec.study.study_table import write_study_table
from tests.audit.planted import plant
from tests.emulation.tiny_runs import tiny

AUDITS = {}
"""By name, a function of a folder that returns what the library finds, what is due, and the absolute tolerance."""


def audit(function):
    AUDITS[function.__name__] = function
    return function


# Student's t.


def student_share(x, degrees):
    """Return the probability that the absolute value of Student's t is above x, by an integral of its density."""
    angles = np.linspace(np.arctan(x / np.sqrt(degrees)), np.pi / 2, 20_001)  # t = sqrt(degrees) * tan(angle)
    whole = np.linspace(0.0, np.pi / 2, 20_001)
    areas = [np.trapezoid(np.cos(part) ** (degrees - 1), part) for part in (angles, whole)]
    return areas[0] / areas[1]


def student_quantile(degrees):
    """Return the value that Student's t exceeds in either direction with probability 5 %."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_share(middle, degrees) > 0.05 else (low, middle)
    return low


def t_interval(values):
    """Return mean and ends of the 95 % interval of the mean."""
    values = np.asarray(values, float)
    n = len(values)
    spread = np.sqrt(((values - values.mean()) ** 2).sum() / (n - 1))
    half = student_quantile(n - 1) * spread / np.sqrt(n)
    return values.mean(), values.mean() - half, values.mean() + half


def holm(p_values):
    """Return p-values by Holm's method: times the number of hypotheses that are left, never below an earlier one."""
    found, highest = np.zeros(len(p_values)), 0.0
    for left, place in enumerate(np.argsort(p_values)):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - left)))
        found[place] = highest
    return found


# Tables of studies.

SEEDS = {1: (1, 2, 3, 4), 2: (1, 2, 4, 5, 6), 5: (2, 3, 4, 6), 9: (7,)}
"""Seeds of each fanout that have ended; those of the baseline, 2, are not the same."""


def study_values():
    drawn = np.random.default_rng(3)
    of_seed = 0.1 * drawn.normal(size=10)
    return {
        (f, s): 0.4 + 0.03 * min(f, 3) + of_seed[s] + 0.01 * drawn.normal()
        for f, seeds in SEEDS.items()
        for s in seeds
    }


def study(folder):
    """Return the folder of a study with these values."""
    none = dict.fromkeys(("observer", "relevance", "momentum", "community_size"))
    rows = [
        {"fanout": f, "seed": s, "run": "r", "status": "complete", "code": "c", **none, "measure": "hr@20", "value": v}
        for (f, s), v in study_values().items()
    ]  # fmt: skip
    folder.mkdir()
    write_study_table(folder, rows, {"fanout": "int64"})
    mark = {"study": "s", "gossiprec": "0", "axes": ["fanout"], "baseline": {"fanout": 2}}
    (folder / "study.json").write_text(json.dumps(mark))
    return folder


def of_fanout(f):
    return {s: v for (fanout, s), v in study_values().items() if fanout == f}


def pairs(f):
    """Return the differences from the baseline over the seeds that both have."""
    own, base = of_fanout(f), of_fanout(2)
    return np.array([own[s] - base[s] for s in own if s in base])


@audit
def means_in_a_table(folder):
    lines = csv.DictReader(io.StringIO(open_study(study(folder)).format_table("csv")))
    found = [
        [float(line[name]) for name in ("mean", "low", "high")] for line in lines if line["fanout"] != "9"
    ]
    return found, [100 * np.array(t_interval([*of_fanout(f).values()])) for f in (1, 2, 5)], 1e-6


@audit
def halves_in_a_table(folder):
    text = open_study(study(folder)).format_table("markdown", digits={"": 4})
    cells = [
        line.split("|")[2].replace("*", "").replace("\\", "").split("±") for line in text.splitlines()[2:5]
    ]
    due = [t_interval([*of_fanout(f).values()]) for f in (1, 2, 5)]
    return np.array(cells, float), [(100 * mean, 50 * (high - low)) for mean, low, high in due], 6e-5


@audit
def stars_in_a_table(folder):
    lines = csv.DictReader(io.StringIO(open_study(study(folder)).format_table("csv")))
    found = [float(line["p"]) for line in lines if line["p"]]
    raw = []
    for f in (1, 5):
        mean, low, high = t_interval(pairs(f))
        n = len(pairs(f))
        raw.append(student_share(abs(mean) / ((high - low) / 2) * student_quantile(n - 1), n - 1))
    return found, holm(raw), 1e-6


@audit
def differences_of_a_study(folder):
    table = read_study(study(folder))
    (quantity,) = table.values
    spans = [one.estimate for one in draw.differences_to_baseline(table, quantity)]
    found = [(one.mean, one.low, one.high, one.n) for one in spans]
    return found, [(*t_interval(pairs(f)), len(pairs(f))) for f in (1, 5)], 1e-7


# Comparisons of runs.


def run(folder, seed, rate):
    """Return a tiny run."""
    return simulate(
        tiny(
            seed=seed, model={"name": "mf", "dim": 4, "init_std": 0.3}, protocol={"name": "fedavg", "rounds": 2},
            training={"optimizer": "sgd", "learning_rate": rate, "batch_size": "full"}, observers=[],
            evaluate={"every": 1, "metrics": ["full_ndcg@20"], "by_user": "all"},
        ), out=folder,
    )  # fmt: skip


def last_values(ended):
    """Return the value of each user at the last report."""
    table = ended.by_user
    some = table["time"] == table["time"].max()
    return table["value"][some][np.argsort(table["user"][some])]


@audit
def users_in_a_comparison(folder):
    ended = [run(folder / f"{rate}", 1, rate) for rate in (0.05, 3.0)]
    (found,) = paired_tests.compare_groups([paired_tests.group_by_scenario(ended)])
    first, second = map(last_values, ended)
    difference = second - first
    draw_ = np.random.default_rng(77)
    means = difference[draw_.integers(len(difference), size=(100_000, len(difference)))].mean(axis=1)
    error = difference.std() / np.sqrt(len(difference))
    due = [first.mean(), second.mean(), *np.percentile(means, [2.5, 97.5])]
    return [found.first, found.second, found.low, found.high], due, error / 4


@audit
def seeds_in_a_comparison(folder):
    ended = {rate: [run(folder / f"{rate}-{seed}", seed, rate) for seed in (1, 2, 3)] for rate in (0.05, 3.0)}
    groups = paired_tests.group_by_scenario([*itertools.chain(*ended.values())])
    (found,) = [test for test in paired_tests.compare_groups([groups]) if test.unit == "seeds"]
    first, second = (np.array([last_values(one).mean() for one in runs]) for runs in ended.values())
    return [found.low, found.high, found.n], [*t_interval(second - first)[1:], 3], 1e-7


@audit
def standard_error_of_a_sample(folder):
    sections = {"every": 1, "metrics": ["full_ndcg@20"], "by_user": "all", "sample": 5}
    ended = simulate(
        tiny(
            model={"name": "mf", "dim": 4, "init_std": 0.3}, protocol={"name": "fedavg", "rounds": 2}, observers=[],
            evaluate=sections,
        ), out=folder / "run",
    )  # fmt: skip
    values = last_values(ended)
    spread = np.sqrt(((values - values.mean()) ** 2).sum() / 4)  # of 5 of 12 users
    found = ended.summary["measured"]["standard_errors"]["full_ndcg@20"]
    return found, spread / np.sqrt(5) * np.sqrt(1 - 5 / 12), 1e-9


# Attacks.


def auc(scores, truth, weights):
    """Return the chance that a member scores above another item, ties counting half; pairs have weights."""
    above = (scores[truth][:, None] > scores[~truth]) + 0.5 * (scores[truth][:, None] == scores[~truth])
    both = weights[truth][:, None] * weights[~truth]
    return (above * both).sum() / both.sum()


@audit
def membership(folder):
    observer = {"name": "loss-mia", "who": "coordinator", "pairs": 8}
    scenario = tiny(
        model={"name": "mf", "dim": 4, "init_std": 0.3}, protocol={"name": "fedavg", "rounds": 2},
        observers=[observer], evaluate={"every": 2, "metrics": ["hr@5"]},
    )  # fmt: skip
    with gossiprec.prepare(scenario, out=folder / "run") as live:
        ended = live.finish()
        (own,), train = live.prepared.attacks[0].item_scores(), live.prepared.components.split.train
    truth = np.array([i in train[v] for v, i in zip(own.victims.tolist(), own.items.tolist(), strict=True)])
    victims, draw_ = np.unique(own.victims), generator(5, "membership-intervals")
    found = {f["measure"]: f["value"] for f in ended.summary["findings"]}
    values = []
    for _ in range(200):
        chosen = victims[draw_.integers(len(victims), size=len(victims))]
        values.append(auc(own.scores, truth, np.array([np.sum(chosen == victim) for victim in own.victims])))
    due = [auc(own.scores, truth, np.ones(len(truth))), *np.percentile(values, [2.5, 97.5])]
    return [found["item_auc"], found["item_auc_low"], found["item_auc_high"]], due, 1e-6


@audit
def attributes(folder):
    """The interval of the macro AUC: victims are drawn with replacement, each class its own number."""
    draw_ = np.random.default_rng(4)
    truth = draw_.permutation(np.repeat([0, 1, 2], [9, 14, 22]))
    chances = draw_.dirichlet(np.ones(3), len(truth)).round(1) + 0.4 * np.eye(3)[truth] * draw_.random(
        (len(truth), 1)
    )
    values = []
    for _ in range(2_000):
        some = np.concatenate(
            [draw_.choice(np.flatnonzero(truth == c), np.sum(truth == c)) for c in range(3)]
        )
        every = np.ones(len(some))
        values.append(np.mean([auc(chances[some, c], truth[some] == c, every) for c in range(3)]))
    found = attribute_scores.auc_interval(chances, truth, np.random.default_rng(5))
    # 200 draws: sqrt(.025 * .975 / 200) / .0584 = 0.19 standard errors; three of them
    return found, np.percentile(values, [2.5, 97.5]), 0.57 * np.std(values)


def agree(name, folder):
    """Return whether library and plain numpy agree."""
    found, due, tolerance = AUDITS[name](folder)
    return np.shape(found) == np.shape(due) and bool(np.allclose(found, due, rtol=1e-6, atol=tolerance))


SLOW = ("users_in_a_comparison", "seeds_in_a_comparison", "attributes")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in AUDITS]
)
@pytest.mark.cases(3)
def test_intervals_are_those_of_plain_numpy(name, tmp_path):
    assert agree(name, tmp_path / "audit")


FAULTS = {
    "a normal quantile": ("means_in_a_table", lambda patch: patch.setattr(
        estimates, "student", SimpleNamespace(ppf=lambda share, degrees: 1.959964))),
    "one degree of freedom more": ("means_in_a_table", lambda patch: plant(
        patch, paper_table, "mean_with_interval", "/ 2, len(found) - 1)", "/ 2, len(found))")),
    "a standard deviation over n": ("means_in_a_table", lambda patch: plant(
        patch, paper_table, "mean_with_interval", "ddof=1", "ddof=0")),
    "the whole width after the sign": ("halves_in_a_table", lambda patch: plant(
        patch, paper_table, "_number", "(found.high - found.low) / 2", "(found.high - found.low)")),
    "a test that is not paired": ("stars_in_a_table", lambda patch: plant(
        patch, paper_table, "_add_tests", "paired_differences(second, first)",
        "paired_differences(second, np.roll(first, 1))")),
    "p-values that are not corrected": ("stars_in_a_table", lambda patch: patch.setattr(
        paper_table, "correct_by_holm", np.array)),
    "Bonferroni's correction": ("stars_in_a_table", lambda patch: patch.setattr(
        paper_table, "correct_by_holm", lambda p_values: np.minimum(1, np.array(p_values) * len(p_values)))),
    "pairs in the order of seeds": ("differences_of_a_study", lambda patch: plant(
        patch, draw, "paired_difference",
        "difference(values[seed], baseline[seed]) for seed in values if seed in baseline",
        "one - other for one, other in zip(values.values(), baseline.values())")),
    "an interval of 90 %": ("users_in_a_comparison", lambda patch: patch.setattr(paired_tests, "CONFIDENCE", 0.9)),
    "users that are not paired": ("users_in_a_comparison", lambda patch: patch.setattr(
        paired_tests, "compare_pairs", lambda first, *others, function=paired_tests.compare_pairs:
        function(first[::-1], *others))),
    "a normal quantile over seeds": ("seeds_in_a_comparison", lambda patch: patch.setattr(
        stats.t, "ppf", lambda *_: 1.959964)),
    "no correction for the sample": ("standard_error_of_a_sample", lambda patch: plant(
        patch, utility.UtilityEvaluator, "standard_errors", "np.sqrt(left / ", "np.sqrt(1 / ")),
    "items are resampled": ("membership", lambda patch: plant(
        patch, item_scores, "_resampled", "np.unique(found.victims, return_inverse=True)",
        "(np.arange(len(found.victims)),) * 2")),
    "an interval of members only": ("membership", lambda patch: plant(
        patch, item_scores, "_resampled", "weights=times * kind", "weights=np.where(truth, times, 1) * kind")),
    "an interval of half the users": ("attributes", lambda patch: plant(
        patch, attribute_scores, "auc_interval", "draw.multinomial(len(users)", "draw.multinomial(len(users) // 4")),
}  # fmt: skip


@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=pytest.mark.slow if place else ()) for place, f in enumerate(FAULTS)]
)
@pytest.mark.cases(2)
def test_a_planted_fault_is_noticed(fault, monkeypatch, tmp_path):
    name, plant_it = FAULTS[fault]
    plant_it(monkeypatch)
    assert not agree(name, tmp_path / "audit")
