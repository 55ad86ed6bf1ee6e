"""``gossiprec counterfactual`` as a shell sees it."""

from __future__ import annotations

import json

import pytest

from gossiprec.emulation import simulate
from tests.cli.calls import invoke
from tests.emulation.tiny_runs import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    lines = [
        f"{name},i{(3 * k + n) % 11},{k}"
        for n, name in enumerate(["7", "ann", "bob", "eve"])
        for k in range(5)
    ]
    (folder / "views.csv").write_text("\n".join(["user,item,time", *lines, ""]))
    dataset = {
        "name": "file",
        "path": str(folder / "views.csv"),
        "split": {"name": "leave_last_k", "test": 1},
    }
    protocol = {"name": "rand-gossip", "fanout": 1, "view": {"size": 2}, "wakes": 3}
    scenario = tiny(
        dataset=dataset, protocol=protocol, observers=[], evaluate={"every": 1, "metrics": ["hr@5"]}
    )
    return simulate(scenario, out=folder / "run").path


def test_users_are_named_as_in_the_data(run, capsys):
    code, printed, _ = invoke(
        capsys, "counterfactual", run, "--without", "7", "--without-node", "2", "-q", "--json"
    )
    assert code == 0
    assert json.loads(printed)["run"] == f"{run}-without-0-2"
    found = json.loads(invoke(capsys, "counterfactual", run, "--without", "bob", "-q", "--json")[1])
    assert found["run"] == f"{run}-without-2"
    assert found["interactions"] == 15


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected --without USER or --without-node ID"),
        (("--without", "anne"), "no user named 'anne'; expected a name in users.csv; did you mean 'ann'?"),
        (("--without-node", "4"), "found user 4; expected a node id from 0 to 3"),
    ],
)
def test_bad_users_are_one_message(run, capsys, arguments, words):
    code, _, said = invoke(capsys, "counterfactual", run, *arguments, "-q")
    assert code == 2
    assert words in said
    assert "Traceback" not in said


def test_influence_is_a_table_by_hops_or_json_by_user(run, capsys):
    without = f"{run}-without-2"
    assert invoke(capsys, "counterfactual", run, "--without", "bob", "-q")[0] == 0
    code, printed, _ = invoke(capsys, "influence", run, without, "-k", "3", "-q", "--json")
    assert code == 0
    found = json.loads(printed)
    assert found["by_user"]["user"] == [0, 1, 3]
    assert sum(row["users"] for row in found["by_hops"]) == 3
    printed = invoke(capsys, "influence", run, without, "-k", "3", "-q")[1]
    assert "overlap@3" in printed
    assert "hops: 1" in printed
    code, _, said = invoke(capsys, "influence", run, run, "-q")
    assert code == 2
    assert "gossiprec counterfactual" in said


def test_unlearning_is_a_table_by_method_or_json(run, capsys):
    arguments = ("unlearn", run, "--without", "bob", "-k", "3", "-q")
    code, printed, _ = invoke(capsys, *arguments, "--method", "{name: fine-tune, fraction: 0.5}", "--json")
    assert code == 0
    found = json.loads(printed)
    assert found["removed"] == [2]
    assert [*found["methods"]] == ["nothing", "retrain", "fine-tune"]
    assert found["methods"]["retrain"]["distance"] == 0
    printed = invoke(capsys, *arguments)[1]
    for word in ("recall@3", "membership_auc", "stored_bytes", "fine-tune"):
        assert word in printed
    for more, words in (
        (("--without", "anne"), "did you mean 'ann'?"),
        (("--method", "{name"), "--method: found no valid YAML"),
        (("--method", "anything"), "unlearning method"),
    ):
        code, _, said = invoke(capsys, *arguments, *more)
        assert code == 2
        assert words in said
        assert "Traceback" not in said
