"""`gossiprec runs`, `diff`, `compare` and `rerun`."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import bootstrap, ttest_rel, wilcoxon

from gossiprec import simulate
from gossiprec.cli.main import exit_code
from gossiprec.cli.runs import _print_tests
from gossiprec.runs import open_run
from gossiprec.runs.paired_tests import PairedTest, correct_by_holm
from gossiprec.runs.run_list import compare_runs, find_runs, list_runs, read_scenario, select_rows
from tests.emulation.tiny_runs import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with three runs, one of them as in a study."""
    top = tmp_path_factory.mktemp("runs")
    for name, seed, wakes in (("a", 5, 4), ("b", 6, 4), ("study/runs/c", 5, 6)):
        scenario = tiny(seed=seed, executor={"name": "fused"})
        scenario["protocol"]["wakes"] = wakes
        simulate(scenario, out=top / name)
    return top


def printed(capsys, *arguments):
    """Return the exit status and what a command printed."""
    status = exit_code([*map(str, arguments)])
    return (status, *capsys.readouterr())


def names(folder, *arguments, capsys):
    """Return the names of the listed runs, in order."""
    status, out, _ = printed(capsys, "runs", folder, "--json", *arguments)
    assert status == 0
    return [row["run"].rpartition("/")[2] for row in json.loads(out)]


def test_a_list_shows_only_what_differs(folder, capsys):
    status, out, err = printed(capsys, "runs", folder)
    head, columns, *rows = out.splitlines()
    assert (status, err, len(rows)) == (0, "", 3)
    assert head == "3 runs; in all: name tiny, status complete"
    assert columns.split() == [
        "run",
        "seed",
        "utility",
        "best",
        "attack",
        "date",
        "seconds",
        "protocol.wakes",
    ]
    assert [row.split()[-1] for row in rows] == ["4", "4", "6"]


def test_conditions_and_order(folder, capsys):
    assert names(folder, "--where", "protocol.wakes=4", capsys=capsys) == ["a", "b"]
    assert names(folder, "--where", "seed!=5", capsys=capsys) == ["b"]
    assert names(folder, "--where", "hr@5>=0", "--where", "status=failed", capsys=capsys) == []
    assert names(folder, "--sort", "protocol.wakes", "--reverse", capsys=capsys)[0] == "c"
    assert names(folder, "--where", "protocol=rand-gossip", "--where", "seed=6", capsys=capsys) == ["b"]
    out = printed(capsys, "runs", folder, "--column", "observers", "--column", "model")[1]
    assert [line.split()[-2:] for line in out.splitlines()[1:]] == [
        ["observers", "model"],
        *[["cda", "gmf"]] * 3,
    ]
    row = list_runs(find_runs(folder))[0][0]
    both = replace(row, scenario=row.scenario | {"observers.1.name": "aia"})
    assert both.value("observers") == "cda, aia"
    for condition, kept in (("observers=aia", [both]), ("observers!=cda", []), ("observers!=aia", [row])):
        assert select_rows([row, both], [condition]) == kept
    assert select_rows([row, both], ["observers=cda, aia"]) == [both]
    by_value = names(folder, "--sort", "hr@5", capsys=capsys)
    values = {path.name: open_run(path).summary["utility"]["hr@5"] for path in find_runs(folder)}
    assert [values[name] for name in by_value] == sorted(values.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "seed"], "--where: found 'seed'; expected KEY=VALUE"),
        (["--where", "wake=3"], "--where: no run has 'wake'"),
        (["--sort", "hr@50"], "--sort: no run has 'hr@50'; did you mean 'hr@5'?"),
        (["--column", "x"], "--column: no run has 'x'"),
        (["/no/such"], "/no/such: found no folder"),
    ],
)
def test_bad_arguments(folder, arguments, message, capsys):
    status, out, err = printed(capsys, "runs", folder, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_unreadable_runs_are_named_and_left_out(folder, tmp_path, capsys):
    for name in "abcde":
        shutil.copytree(folder / "a", tmp_path / name)
    (tmp_path / "b" / "manifest.json").write_text("{")
    (tmp_path / "c" / "scenario.yaml").write_text("- 3\n")
    (tmp_path / "d" / "summary.json").write_text('{"attacks": 3}')
    (tmp_path / "e" / "summary.json").unlink()
    status, out, err = printed(capsys, "runs", tmp_path)
    assert status == 0
    assert out.startswith("2 runs")
    assert [line.partition(str(tmp_path))[2][1] for line in err.splitlines()] == ["b", "c", "d", "e"]


def test_a_scenario_is_read_as_the_run_reads_it(folder):
    def value(content, path):
        for key in path.split("."):
            content = content[int(key) if isinstance(content, list) else key]
        return content

    run = open_run(folder / "a")
    found = read_scenario(run.path)
    assert found["protocol.wakes"] == 4
    assert all(value(run.scenario, path) == each for path, each in found.items())


def test_a_comparison_has_scenario_data_and_results(folder, capsys):
    same = compare_runs(open_run(folder / "a"), open_run(folder / "a"))
    assert not any(same.values())
    found = compare_runs(open_run(folder / "a"), open_run(folder / "study/runs/c"))
    assert found["scenario"] == {"protocol.wakes": (4, 6)}
    assert not found["code"]
    assert not found["data"]
    assert {"log", "bytes.sent"} <= {*found["results"]}
    other = compare_runs(open_run(folder / "a"), open_run(folder / "b"))
    assert other["scenario"] == {"seed": (5, 6)}
    assert "fingerprint" in other["data"]
    status, out, _ = printed(capsys, "diff", folder / "a", folder / "b")
    assert status == 0
    assert "code: the same" in out
    assert out.split("scenario:")[1].splitlines()[2].split() == ["seed", "5", "6"]
    assert printed(capsys, "diff", folder / "a", folder)[0] == 2


@pytest.mark.slow
@pytest.mark.full
def test_runs_are_compared_user_by_user(folder, capsys):
    pair = folder / "a", folder / "study/runs/c"
    status, out, _ = printed(capsys, "compare", *pair, pair[0], "--json")
    found = json.loads(out)
    first, second = (open_run(path).by_user for path in pair)
    metrics = [*dict.fromkeys(first["metric"].tolist())]
    assert {"hr@5", "ndcg@5"} < {*metrics}
    assert (status, [test["metric"] for test in found]) == (0, metrics * 2)
    for test in found[: len(metrics)]:
        one, other = (each["value"][each["metric"] == test["metric"]] for each in (first, second))
        assert (test["unit"], test["n"]) == ("users", len(one))
        assert (test["first"], test["second"]) == (one.mean(), other.mean())
        assert test["p_value"] == wilcoxon(other - one).pvalue
        if test["metric"] == "hr@5":
            interval = bootstrap([other - one], np.mean, method="percentile", rng=7).confidence_interval
            assert [test["low"], test["high"]] == pytest.approx([*interval], abs=0.01)
    assert [test["holm"] for test in found] == correct_by_holm([test["p_value"] for test in found]).tolist()
    assert all(test["low"] == test["high"] == 0 and test["holm"] == 1 for test in found[len(metrics) :])
    assert "hr@5" in printed(capsys, "compare", *pair)[1].splitlines()[1]


@pytest.mark.slow
def test_scenarios_are_compared_seed_by_seed(folder, tmp_path, capsys):
    scenario = {**open_run(folder / "study/runs/c").scenario, "seed": 6}
    runs = [folder / "a", folder / "b", folder / "study/runs/c", simulate(scenario, out=tmp_path / "d").path]
    status, out, _ = printed(capsys, "compare", *runs, "--metric", "ndcg@5", "--json")
    (test,) = json.loads(out)  # each seed has other synthetic data, so there is no test over users
    means = [open_run(path).summary["utility"]["ndcg@5"] for path in runs]
    assert (status, test["unit"], test["n"]) == (0, "seeds", 2)
    assert (test["first"], test["second"]) == pytest.approx((np.mean(means[:2]), np.mean(means[2:])))
    expected = ttest_rel(means[2:], means[:2]).confidence_interval()
    assert (test["low"], test["high"]) == pytest.approx((expected.low, expected.high))
    assert "Only tests over seeds" in printed(capsys, "compare", *runs, "--metric", "ndcg@5")[1]

    assert "found seeds 5, 6 and 5; expected at least two" in printed(capsys, "compare", *runs[:3])[2]
    assert "the same scenario and seed 5 twice" in printed(capsys, "compare", *runs[:3], runs[0])[2]
    found = printed(capsys, "compare", runs[0], runs[2], "--metric", "ndcg@6")[2]
    assert "--metric: found 'ndcg@6'" in found
    assert "did you mean 'ndcg@5'?" in found


def test_a_metric_of_which_lower_is_better_is_marked(capsys):
    one, other = np.mean([0.1, 0.2, 0.3]), np.mean([0.3, 0.2, 0.1])
    about = {"unit": "users", "n": 3, "first": one, "second": other, "low": 0.0, "high": 0.0, "p_value": 1.0}
    _print_tests([PairedTest("a", "b", metric=name, **about) for name in ("hr@5", "miscalibration@5")])
    _, plain, lower, _ = capsys.readouterr().out.splitlines()
    assert "miscalibration@5 (lower is better)" in lower
    assert "lower" not in plain
    assert "+0 " in plain  # a difference by rounding


def test_p_values_are_corrected_for_their_number():
    np.testing.assert_allclose(correct_by_holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])


def test_runs_that_cannot_be_compared_say_why(folder, tmp_path, capsys):
    status, out, err = printed(capsys, "compare", folder / "a", folder / "b")
    assert (status, out) == (2, "")
    assert "expected the same data and split" in err
    older = shutil.copytree(folder / "a", tmp_path / "a")
    (older / "metrics_by_user.parquet").unlink()
    assert "has no metrics_by_user.parquet" in printed(capsys, "compare", folder / "a", older)[2]
    ended = shutil.copytree(folder / "a", tmp_path / "b")
    manifest = json.loads((ended / "manifest.json").read_text())
    (ended / "manifest.json").write_text(json.dumps({**manifest, "status": "interrupted"}))
    assert "b is not complete (interrupted)" in printed(capsys, "compare", folder / "a", ended)[2]


def test_a_rerun_takes_changes(folder, capsys):
    status, *_ = printed(capsys, "rerun", folder / "a", "--set", "protocol.wakes=6", "-q", "--json")
    assert status == 0
    again = open_run(folder / "a-wakes-6")
    assert again.manifest["log_digest"] == open_run(folder / "study/runs/c").manifest["log_digest"]
    assert printed(capsys, "rerun", folder / "a", "--set", "protocol.wakes=6", "-q")[0] == 2
    shutil.rmtree(again.path)


def test_rows_name_the_best_attack(folder):
    (row, *_), problems = list_runs([folder / "a"])
    best = max(attack["max_aac"] for attack in open_run(folder / "a").summary["attacks"])
    assert not problems
    assert row.results["max_aac"] == best
    assert row.facts["best attack"].startswith(f"{100 * best:.1f} %")
