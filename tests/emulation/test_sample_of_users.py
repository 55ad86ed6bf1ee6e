"""A sample of users: its values are those of the whole run, and its error is that of sampling."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.cli.summary_text import format_header
from gossiprec.emulation import prepare, simulate
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny

METRICS = ["hr@5", "recall@5", "val_recall@5", "er@5", "coverage@5"]


def run(out, **evaluate):
    evaluate = {"every": 3, "metrics": METRICS, "targets": [1, 2], "beside": ["popularity"], **evaluate}
    return simulate(load_scenario(tiny(evaluate=evaluate, observers=[])), out=out)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole") / "run")


def by_user(of):
    columns = (of.by_user[name].tolist() for name in ("user", "metric", "value"))
    values = {}
    for user, metric, value in zip(*columns, strict=True):
        values.setdefault(metric, {})[user] = value
    return values


def test_a_sampled_user_has_the_values_of_a_run_for_all(whole, tmp_path):
    sampled = run(tmp_path / "run", sample=5, keep_lists=3)
    expected, found, utility = by_user(whole), by_user(sampled), sampled.summary["utility"]
    errors = sampled.summary["measured"].pop("standard_errors")
    assert sampled.summary["measured"] == {"users": 5, "of": 12}
    assert found.keys() == expected.keys() == errors.keys() == {"hr@5", "recall@5", "val_recall@5"}
    for name, values in found.items():
        assert len(values) == 5
        assert values == {user: expected[name][user] for user in values}
        one = np.array([*values.values()])
        assert utility[name] == pytest.approx(one.mean())
        assert errors[name] == pytest.approx(one.std(ddof=1) / np.sqrt(5) * np.sqrt(1 - 5 / 12))
    assert "measured      5 of 12 users" in format_header(
        sampled.summary | {"measured": {"users": 5, "of": 12}}
    )
    assert utility["hr@5[popularity]"] != whole.summary["utility"]["hr@5[popularity]"]


def test_a_sample_of_all_users_is_the_whole_run_without_error(whole, tmp_path):
    everyone = run(tmp_path / "run", sample=12)
    assert everyone.summary["utility"] == whole.summary["utility"]
    assert set(everyone.summary["measured"]["standard_errors"].values()) == {0.0}


@pytest.mark.parametrize(
    ("evaluate", "expected"),
    [
        ({"sample": 13}, "evaluate.sample: found 13, but there are only 12 users"),
        ({"sample": 1}, "evaluate.sample: found 1"),
        (
            {"sample": 5, "activity_groups": 2},
            "evaluate.activity_groups: cannot be had for a sample of users",
        ),
    ],
)
def test_a_sample_that_cannot_be_is_refused(evaluate, expected):
    with pytest.raises(ScenarioError) as caught:
        prepare(load_scenario(tiny(evaluate={"metrics": ["hr@5"], **evaluate})))
    assert expected in str(caught.value)
