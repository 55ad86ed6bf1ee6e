"""Mistakes with the privacy instruments on the command line: one message, exit status 2, no traceback."""

import pytest
import yaml

from gossiprec.emulation import simulate
from tests.cli.calls import invoke
from tests.emulation.tiny_runs import tiny

FEDAVG = {"name": "fedavg", "rounds": 2}
AIA = {"name": "attribute-inference", "who": "single", "attribute": "gender"}


def people(folder, genders):
    path = folder / "people.csv"
    path.write_text("user,gender\n" + "".join(f"{user},{gender}\n" for user, gender in enumerate(genders)))
    return {**tiny()["dataset"], "user_features": {"path": str(path)}}


def attacked(folder, genders, **options):
    return tiny(dataset=people(folder, genders), observers=[{**AIA, **options}])


def summed(**options):
    return tiny(protocol=FEDAVG, coordinator={"sees": "sums", **options}, observers=[])


MISTAKES = {
    "found the class f only": lambda folder: attacked(folder, ["f"] * 12),
    "found the class f only among the 1 users of whom it is known": lambda folder: attacked(
        folder, "fm" * 6, known=0.05
    ),
    "found no value of any user": lambda folder: attacked(folder, [""] * 12),
    "found no fixed graph": lambda folder: attacked(folder, "fm" * 6, hops=2),
    "halved in only": lambda _: tiny(
        protocol=FEDAVG,
        observers=[{"name": "lira", "who": "coordinator", "known": [4], "models": 10**9}],
    ),
    "coordinator.minimum: found 13, but a round has only 12 clients": lambda _: summed(minimum=13),
    "coordinator.modulus: found 16, but sums of 12 clients with clip 1": lambda _: summed(modulus=16),
    "noise_multiplier": lambda _: tiny(policies=[{"name": "dp-sgd", "epsilon": 1.0, "noise_multiplier": 0}]),
    "found user 12; expected a node id from 0 to 11": lambda _: tiny(
        dataset={**tiny()["dataset"], "without": [12]}
    ),
    "found all 12 users": lambda _: tiny(dataset={**tiny()["dataset"], "without": [*range(12)]}),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_scenario_is_refused_with_one_message(message, tmp_path, capsys):
    path = tmp_path / "mistaken.yaml"
    path.write_text(yaml.safe_dump(MISTAKES[message](tmp_path)))
    check_refused(message, invoke(capsys, "simulate", path, "--out", tmp_path / "run", "-q"))


def check_refused(message, result):
    code, printed, error = result
    assert (code, printed) == (2, "")
    assert message in " ".join(error.split())
    assert error.count("error:") == 1
    assert "Traceback" not in error


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    policies = [{"name": "dp-sgd", "epsilon": 5.0}]
    return simulate(
        tiny(protocol=FEDAVG, observers=[], policies=policies), out=tmp_path_factory.mktemp("runs") / "run"
    ).path


EVERYONE = [part for user in range(12) for part in ("--without", str(user))]
COMMANDS = {
    "expected a node id from 0 to 11": ("counterfactual", "--without", "12"),
    "found all 12 users": ("counterfactual", *EVERYONE),
    "found user 99": ("unlearn", "--without", "99"),
    "canaries would collide with its items": ("audit", "--canaries", "40"),
    "expected items from 0 to 39 that no user has": ("audit", "--item", "40"),
    "found observer 13; expected a node id from 0 to 12": ("epsilon", "--coalition", "1,13"),
}


@pytest.mark.parametrize("message", COMMANDS)
def test_a_command_on_a_run_is_refused_with_one_message(message, run, capsys):
    command, *options = COMMANDS[message]
    check_refused(message, invoke(capsys, command, run, "-q", *options))


def test_a_run_in_which_all_clients_drop_out_sums_nothing_and_says_so(tmp_path, capsys):
    path = tmp_path / "lost.yaml"
    late = {"latency": {"law": "constant", "value": 3.0}}
    path.write_text(yaml.safe_dump({**summed(), "network": late}))
    code, _, error = invoke(capsys, "simulate", path, "--out", tmp_path / "run", "-q")
    assert (code, error) == (0, "")
    assert (
        "rounds were skipped, because fewer clients answered" in (tmp_path / "run/summary.json").read_text()
    )
