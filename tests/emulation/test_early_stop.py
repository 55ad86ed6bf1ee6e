"""A run that ends by a rule before its last report."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gossiprec
from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import estimate_run, replay, resume, simulate
from gossiprec.emulation.run_parts.early_stop import EarlyStop
from gossiprec.measures import MEASURES, Measure, RelevantRanks
from gossiprec.scenario import load_scenario
from gossiprec.scenario.sections import StopOptions
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.reports import report
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_resume import SLOW

MEASURE = "val_recall@5"


def note_all(values, **options):
    """Return the number of the report at which a rule ends a run with these values, and the rule."""
    rule = EarlyStop(StopOptions(measure=MEASURE, **options))
    for number, value in enumerate(values, 1):
        if rule.after_utility(report({MEASURE: value}, number)):
            return number, rule
    return None, rule


@pytest.mark.parametrize(
    ("values", "options", "end"),
    [
        ([0.1, 0.2, 0.2, 0.1, 0.3], {"patience": 2}, 4),
        ([0.1, 0.2, 0.2, 0.3, 0.3], {"patience": 2}, None),
        ([0.1, 0.2, 0.3, 0.4], {"patience": 1, "min_delta": 0.15}, 2),
        ([0.1, 0.2, 0.3, 0.25], {"patience": 2, "min_delta": 0.15}, None),
        ([math.nan, math.nan, 0.1], {"patience": 2}, 2),
        ([0.1, math.nan, 0.1], {"patience": 2}, 3),
    ],
)
def test_it_ends_after_reports_without_a_better_value(values, options, end):
    assert note_all(values, **options)[0] == end


def test_small_gains_add_up_to_a_better_value():
    end, rule = note_all([0.1, 0.2, 0.3, 0.3, 0.3], patience=2, min_delta=0.15)
    assert end == 5
    assert rule.summary()["stopped"]["best"] == {"value": 0.3, "round": 3, "time": 3.0}


def test_the_measure_says_whether_less_is_better(monkeypatch):
    class Depth(Measure):
        """The mean rank."""

        lower_is_better = True

        def compute_values(self, seen, k):
            return seen.ranks.mean(axis=1)

    assert Depth.wants is RelevantRanks
    MEASURES.register("depth")(Depth)
    try:
        rule = EarlyStop(StopOptions(measure="val_depth@5", patience=2))
        ends = [rule.after_utility(report({"val_depth@5": v})) for v in (3.0, 2.0, 2.5, 2.0)]
    finally:
        del MEASURES._members["depth"]
    assert ends == [False, False, False, True]


def stopping(patience=2, **sections):
    """Return a tiny scenario whose run ends by its rule: a rate of learning at which nothing improves for long."""
    sections.setdefault("executor", {"name": "fused"})
    sections.setdefault("evaluate", {"every": 1, "metrics": ["hr@5", MEASURE]})
    sections.setdefault("network", SLOW)
    return often(stop={"measure": MEASURE, "patience": patience, "min_delta": 0.2}, **sections)


def unstopped(scenario):
    """Return the scenario without its rule."""
    return {key: value for key, value in scenario.items() if key != "stop"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The run that its rule ended, and the same run without a rule."""
    folder = tmp_path_factory.mktemp("stop")
    scenario = stopping()
    return simulate(scenario, out=folder / "run"), simulate(unstopped(scenario), out=folder / "whole")


def test_a_run_that_stopped_is_complete_and_says_so(runs):
    run, _ = runs
    (stop,) = zip(*(run.events("stop")[name].tolist() for name in ("time", "round")), strict=True)
    last = run.events("evaluate")
    assert run.status == "complete"
    assert stop == (last["time"][-1], last["round"][-1])
    found = run.manifest["stopped"]
    assert found == run.summary["stopped"]
    assert (found["measure"], found["patience"], found["min_delta"]) == (MEASURE, 2, 0.2)
    assert (found["time"], found["round"]) == stop
    values = run.metrics["value"][run.metrics["metric"] == MEASURE]
    assert found["best"]["value"] == values[-3] == values.max()
    assert not (run.path / "checkpoints").exists()


def test_what_it_wrote_is_the_beginning_of_the_run_without_a_rule(runs):
    run, whole = runs
    assert (whole.path / "metrics.csv").read_text().startswith((run.path / "metrics.csv").read_text())
    for kind in set(run.log.kinds) - {"stop"}:
        for name, values in run.events(kind).items():
            assert np.array_equal(values, whole.events(kind)[name][: len(values)])
    assert len(run.events("wake")["time"]) < len(whole.events("wake")["time"])
    assert not len(whole.events("stop")["time"])
    assert "stopped" not in whole.summary
    assert "stopped" not in whole.manifest


def test_its_summary_counts_what_happened(runs):
    run, whole = runs
    assert run.summary["wakes"] == len(run.events("wake")["time"]) < whole.summary["wakes"]
    received = len(run.events("message")["time"]) + len(run.events("drop")["time"])
    assert received <= run.summary["messages"] < whole.summary["messages"]
    assert run.summary["virtual_time"] == run.manifest["stopped"]["time"]
    assert run.summary["bytes"]["sent"] < whole.summary["bytes"]["sent"]


@pytest.mark.slow
def test_it_is_replayed_stepped_resumed_and_divided_with_the_same_bytes(runs, tmp_path):
    run, _ = runs
    assert replay(run.path).confirmed
    stepped = gossiprec.prepare(stopping(), out=tmp_path / "stepped")
    assert [report.last for report in stepped] == [False] * 4 + [True]
    assert outcome(stepped.finish().path) == outcome(run.path)
    early = gossiprec.prepare(stopping(), out=tmp_path / "early")
    early.step(), early.step()
    assert outcome(resume(early.close().path).path) == outcome(run.path)
    shards = simulate(divided(stopping(), 2), out=tmp_path / "shards", make_shard_group=Threads)
    assert shards.manifest["log_digest"] == run.manifest["log_digest"]
    assert (shards.path / "metrics.csv").read_bytes() == (run.path / "metrics.csv").read_bytes()


@pytest.mark.full
def test_a_checkpoint_holds_how_long_the_rule_has_waited(tmp_path):
    scenario = stopping(patience=5)
    whole = simulate(scenario, out=tmp_path / "whole")
    assert whole.manifest["stopped"]["round"] < 8
    broken = ended_early(tmp_path / "broken", scenario, 4)
    assert outcome(resume(broken.path).path) == outcome(whole.path)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"stop": {"measure": "val_recal@5"}}, "stop.measure: found 'val_recal@5': unknown"),
        ({"stop": {"measure": "recall@5"}}, "stop.measure: found 'recall@5', which sees test items"),
        (
            {"stop": {"measure": "coverage@5"}},
            "stop.measure: found 'coverage@5', which sees no validation items",
        ),
        (
            {"stop": {"measure": "val_ndcg@5"}},
            "validation items are ranked among all items; write val_full_ndcg@5",
        ),
        (
            {"stop": {"measure": "val_recall@7"}},
            "stop.measure: found 'val_recall@7', which no report has; add it to evaluate.metrics",
        ),
        ({"stop": {"measure": MEASURE, "patience": 0}}, "stop.patience: found 0, must be greater than"),
        ({"stop": {"measure": MEASURE, "min_delta": -1}}, "stop.min_delta: found -1, must be greater than"),
        ({"stop": {"patience": 3}}, "stop.measure: is missing"),
        (
            {"stop": {"measure": MEASURE, "patiense": 3}},
            "stop.patiense: unknown key; did you mean 'patience'",
        ),
        ({"stop": MEASURE}, "stop: found 'val_recall@5', must be a mapping"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_when_it_is_read(sections, message):
    scenario = often(evaluate={"every": 1, "metrics": ["recall@5", MEASURE]})
    with pytest.raises(ScenarioError) as refused:
        load_scenario({**scenario, **sections})
    assert message in str(refused.value)


def test_without_validation_items_the_split_is_named(tmp_path):
    scenario = stopping()
    dataset = {**scenario["dataset"], "split": {"name": "leave_last_k", "test": 2}}
    with pytest.raises(ScenarioError, match="the split leave_last_k has no validation items"):
        simulate({**scenario, "dataset": dataset}, out=tmp_path / "run")


@pytest.mark.parametrize("how", ["simulate", "estimate"])
def test_patience_beyond_the_reports_of_the_run_is_refused(how, tmp_path):
    scenario = load_scenario(stopping(patience=99))
    with pytest.raises(ScenarioError, match=r"stop.patience: found 99, but .* about 1[0-9] reports"):
        simulate(scenario, out=tmp_path / "run") if how == "simulate" else estimate_run(scenario)


def test_an_estimate_says_at_most():
    plain = load_scenario({**stopping(network={}), "stop": None})
    accuracies = [estimate_run(s).count_accuracy for s in (plain, load_scenario(stopping(network={})))]
    assert accuracies[0] != "at most"
    assert accuracies[1] == "at most"


def test_a_rule_is_written_with_its_defaults():
    assert load_scenario(often()).resolved()["stop"] is None
    found = load_scenario(stopping()).resolved()["stop"]
    assert found == {"measure": MEASURE, "patience": 2, "min_delta": 0.2}
    assert list(itertools.islice(found, 1)) == ["measure"]
