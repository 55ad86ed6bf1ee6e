"""The tutorial package: installed as anybody would, its model, attack and policy work and keep our contracts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.calls import call, call_each
from tests.emulation.ended_early import often
from tests.emulation.tiny_runs import SINGLE, tiny
from tests.processes import Interpreter

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "gossiprec-tutorial"
CHECKS = """
from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.rules.aggregators import AGGREGATORS
from gossiprec.measures import MEASURES
from gossiprec.rules.servers import SERVERS
from gossiprec.testing import check_adversary, check_aggregator, check_attack, check_measure, check_model, check_policy
from gossiprec.testing import check_server
from gossiprec.models import MODELS
from gossiprec.defences import POLICIES
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.testing import check_protocol
check_model(MODELS["distance-mf"])
check_model(MODELS["perceptron"])
check_model(MODELS["attribute-towers"], {"users": ["gender", "occupation"]})
check_aggregator(AGGREGATORS["keep-if-better"])
check_attack("last-heard", {"community_size": 3})
check_attack("top-items")
check_server(SERVERS["line-search"])
check_measure(MEASURES["genre_spread"])
check_adversary(ATTACKS["probe"])
check_policy(POLICIES["coarse"], {"step": 0.05})
check_policy(POLICIES["own-items"])
check_policy(POLICIES["pairwise-masks"])
check_protocol(PROTOCOLS["offers"], {"wakes": 5})
"""
FULL_SET = """
from pathlib import Path
from tests.plugins.full_set import check
check({scenario!r}, Path({folder!r}), apart={apart})
"""
IN_PARTS = {
    "own-items": {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 8},
    "pairwise-masks": {"name": "fedavg", "rounds": 8, "participation": 0.5, "merge": "mean"},
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Install the package into a folder of its own; return an environment in which Python finds it."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(site), str(FOLDER)], check=True, capture_output=True, timeout=300)
    path = os.pathsep.join([str(site), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def process(environment):
    """A process that finds the package."""
    with Interpreter(environment) as one:
        yield one


def full_set(process, scenario, tmp_path, *, apart=False):
    """Run on every executor, killed and resumed, replayed, on two shards, in a study, and in a report."""
    process.run(FULL_SET.format(scenario=scenario, folder=str(tmp_path), apart=apart))
    manifest = json.loads((tmp_path / "whole" / "manifest.json").read_text())
    assert list(manifest["plugins"]) == ["gossiprec-tutorial"]


def test_what_it_brings_is_listed_with_its_origin(environment):
    names = {"models": "distance-mf", "attacks": "last-heard", "policies": "pairwise-masks"}
    each = call_each(*(("list", kind) for kind in names), PYTHONPATH=environment["PYTHONPATH"])

    for listed, name in zip(each, names.values(), strict=True):
        lines = listed.stdout.splitlines()
        assert [line for line in lines if name in line and "gossiprec-tutorial 1.0" in line]


def test_a_scenario_uses_all_three(environment, tmp_path):
    scenario = tiny(
        model={"name": "distance-mf", "dim": 4},
        policies=[{"name": "coarse", "nodes": "all", "step": 0.05}],
        observers=[{"name": "last-heard", "community_size": 3}],
    )
    (tmp_path / "mine.json").write_text(json.dumps(scenario))
    done = call("simulate", "mine.json", "--out", "run", cwd=tmp_path, PYTHONPATH=environment["PYTHONPATH"])
    assert done.returncode == 0, done.stderr

    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert [attack["observer"] for attack in summary["attacks"]] == ["last-heard"]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert list(manifest["plugins"]) == ["gossiprec-tutorial"]


@pytest.mark.parametrize("model", ["attribute-towers", "distance-mf"])
def test_a_model_and_groups_of_users_do_all_that_runs_must_do(process, tmp_path, model):
    """Attributes and groups, too: on every executor, resumed, replayed, on shards, in a study and in reports."""
    users = [f"{n},{'fm'[n % 2]}" for n in range(12)]
    (tmp_path / "users.csv").write_text("\n".join(["user,gender", *users, ""]))
    (tmp_path / "items.csv").write_text(
        "\n".join(["item,genres", *(f"{n},{'war|' * (n % 2)}drama" for n in range(40)), ""])
    )
    guesses = {"name": "top-items", "members": [0, 5, 7], "share": [0.1, 0.2]}
    scenario = often(model={"name": model, "dim": 4}, observers=[SINGLE, guesses])
    scenario["dataset"] |= {
        f"{of}_features": {"path": str(tmp_path / f"{of}s.csv")} for of in ("user", "item")
    }
    scenario["evaluate"] = {
        **scenario["evaluate"],
        "metrics": ["hr@5", "genre_spread@5"],
        "groups": [{"by": "gender"}, {"by": "activity", "parts": 2}],
    }
    full_set(process, scenario, tmp_path)
    assert {"hr@5[gender=f]", "hr@5[activity=2]"} <= set(
        json.loads((tmp_path / "whole" / "summary.json").read_text())["utility"]
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "users",
            "model.users: found gender, but synthetic has no attributes of users; name a table with dataset.",
        ),
        ("sex", "found no column 'gender'; expected one of: sex"),
    ],
    ids=["no table", "another column"],
)
def test_attributes_that_the_data_lack_are_refused(environment, tmp_path, table, message):
    scenario = tiny(model={"name": "attribute-towers"})
    if table == "sex":
        (tmp_path / "users.csv").write_text("user,sex\n0,f\n")
        scenario["dataset"] |= {"user_features": {"path": str(tmp_path / "users.csv")}}
    (tmp_path / "mine.json").write_text(json.dumps(scenario))
    done = call("simulate", "mine.json", "--out", "run", cwd=tmp_path, PYTHONPATH=environment["PYTHONPATH"])

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_protocol_that_answers_passes_the_full_set(process, tmp_path):
    protocol = {"name": "offers", "receivers": 3, "wakes": 8, "patience": 1.5}
    network = {"latency": {"law": "exponential", "mean": 0.4}, "loss": 0.1, "duplication": 0.1}
    scenario = often(protocol=protocol, network=network, training={"eps": 1e-3})
    full_set(process, scenario, tmp_path)


@pytest.mark.parametrize("policy", IN_PARTS)
def test_messages_per_receiver_and_cohort_pass_the_full_set(environment, process, tmp_path, policy):
    policies = [{"name": policy, "nodes": "all"}]
    scenario = often(policies=policies, protocol=IN_PARTS[policy], executor={"name": "reference"})
    if policy != "own-items":
        full_set(process, scenario, tmp_path)
        return
    with Interpreter(environment) as own:  # in which Ray may be left behind
        full_set(own, scenario, tmp_path, apart=True)


PROBES = [{"name": "probe", "nodes": [1, 4, 7]}]
PUBLIC = {"users": 3}
ON_PUBLIC_DATA = {
    "name": "fedavg",
    "rounds": 8,
    "merge": {"name": "keep-if-better", "root": PUBLIC},
    "server": {"name": "line-search", "root": PUBLIC},
}
WHOLE = {
    "probe-gossip": {
        "protocol": {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 8},
        "adversaries": PROBES,
    },
    "probe-clients": {"protocol": {"name": "fedavg", "rounds": 8}, "adversaries": PROBES},
    "public-data": {"protocol": ON_PUBLIC_DATA, "model": {"name": "perceptron", "dim": 4, "hidden": 4}},
}


@pytest.mark.parametrize("name", WHOLE)
def test_it_does_all_that_runs_must_do(process, tmp_path, name):
    observers = [{"name": "top-items"}] if name == "public-data" else []
    full_set(process, often(observers=observers, **WHOLE[name]), tmp_path)


def test_a_cohort_of_one_is_refused_with_one_message(environment, tmp_path):
    alone = {**IN_PARTS["pairwise-masks"], "participation": 0.09}
    (tmp_path / "mine.json").write_text(
        json.dumps(tiny(policies=[{"name": "pairwise-masks", "nodes": "all"}], protocol=alone))
    )
    done = call("simulate", "mine.json", "--out", "run", cwd=tmp_path, PYTHONPATH=environment["PYTHONPATH"])

    assert done.returncode == 2
    assert "is the only client of round 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_keeps_the_contracts(process):
    process.run(CHECKS)


@pytest.mark.parametrize(
    "name",
    [
        "distance_mf",
        "last_heard",
        "probe",
        "top_items",
        "coarse",
        "pairwise_masks",
        "own_items",
        "offers",
        "keep_if_better",
    ],
)
def test_the_pages_show_it_or_link_to_it(name):
    source = (FOLDER / "gossiprec_tutorial" / f"{name}.py").read_text().rstrip()
    pages = (ROOT / "docs" / page for page in ("models.md", "extending.md", "policies.md", "aggregators.md"))

    texts = [page.read_text() for page in pages]
    assert any(source in text or f"/{name}.py)" in text for text in texts)
