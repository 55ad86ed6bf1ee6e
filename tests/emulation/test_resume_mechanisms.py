"""A run with a mechanism, or with two, is resumed across a report to the same bytes."""

from __future__ import annotations

import functools
import itertools
import re
import signal

import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import resume, simulate
from gossiprec.emulation.progress import NullProgress
from tests.emulation.ended_early import outcome

N_REPORTS, BREAK = 5, 2
"""Reports of a whole run, and the report at which it is stopped and resumed."""
METRICS = ["hr@5", "ndcg@5"]
BASE = {
    "name": "tiny",
    "seed": 5,
    "plots": False,
    "dataset": {
        "name": "synthetic",
        "users": 16,
        "items": 40,
        "interactions": 260,
        "communities": 3,
        "split": {"name": "leave_last_k", "test": 3, "validation": 2},
    },
    "evaluate": {"every": 1, "metrics": METRICS},
    "checkpoint": {"minutes": 1e9},
}
GOSSIP = {
    "model": {"name": "gmf", "dim": 8, "init_std": 0.1},
    "training": {"batch_size": 16},
    "protocol": {
        "name": "rand-gossip",
        "view": {"size": 3},
        "wakes": N_REPORTS,
        "wake": {"law": "constant"},
    },
    "executor": {"name": "fused"},
}
STAR = {
    "model": {"name": "gmf", "dim": 8, "init_std": 0.1},
    "training": {"batch_size": 16},
    "protocol": {"name": "fedavg", "rounds": N_REPORTS, "participation": 0.75, "client_model": "own"},
    "executor": {"name": "fused"},
}
HOMES = {"gossip": GOSSIP, "star": STAR}
SAME = "val_recall@39"
"""A measure that is 1 at every report, as all candidates count: the first report is the best one, before the break."""
VALIDATED = {"evaluate": {"metrics": [SAME]}}
COALITION = {"who": "coalition", "fraction": 0.25}
CENTRE = {"who": "coordinator"}
CDA = {"name": "cda", "community_size": 4, "reference_items": 15}
SHILLING = {"name": "shilling", "number": 2, "start": 2, "profile": "bandwagon", "items": 6}
TOP_K = {"name": "top-k", "share": 0.2}


def both(**sections):
    """Return a mechanism whose keys are the same in gossip and with a coordinator."""
    return {"gossip": sections, "star": sections}


MECHANISMS = {
    "ledger": both(policies=[{"name": "dp-sgd", "epsilon": 50}]),
    "stop": both(**VALIDATED, stop={"measure": SAME, "patience": 3}),
    "changes": both(
        changes=[{"at": at, "set": {"training.learning_rate": rate}} for at, rate in ((1, 0.02), (3, 0.2))]
    ),
    "lists": both(evaluate={"keep_lists": 4}),
    "versions": both(evaluate={"keep": "versions"}),
    "by_user": both(evaluate={"by_user": "all"}),
    "groups": both(evaluate={"groups": [{"by": "activity", "parts": 2}]}),
    "activity": both(evaluate={"activity_groups": 2}),
    "validated": both(**VALIDATED),
    "rankings": {
        "gossip": {"observers": [{**CDA, **COALITION, "momentum": 0.9}, {**CDA, "who": "single"}]},
        "star": {"observers": [{**CDA, **CENTRE}]},
    },
    "findings": {
        "gossip": {"observers": [{"name": "loss-mia", "who": "single", "pairs": 4}]},
        "star": {"observers": [{"name": "update-mia", **CENTRE, "pairs": 4}]},
    },
    "poisoners": both(attackers=[SHILLING]),
    "network": both(network={"latency": {"law": "exponential", "mean": 0.5}, "loss": 0.1}),
    "churn": both(
        churn={
            "sessions": {
                "online": {"law": "exponential", "mean": 3.0},
                "offline": {"law": "exponential", "mean": 1.0},
            },
            "messages": "held",
        }
    ),
    "sums": {"star": {"coordinator": {"sees": "sums"}}},
    "chunks": {"gossip": {"protocol": {"fanout": 3}, "policies": [{"name": "chunks", "pieces": 3}]}},
    "train_loss": both(evaluate={"train_loss": True}),
    "version": {"star": {"evaluate": {"keep_version": True}}},
    "server": {"star": {"protocol": {"server": {"name": "adam"}}}},
    "rule": {
        "gossip": {"policies": [{"name": "robust-merge", "rule": "centered-clipping", "buffer": 3}]},
        "star": {"protocol": {"merge": {"name": "centered-clipping"}}},
    },
    "memory": both(policies=[TOP_K]),
    "performance": {"gossip": {"protocol": {"name": "pers-gossip"}}},
}


REFUSED = {
    ("changes", "poisoners"): "changes",
    ("versions", "server"): "evaluate.keep",
    ("sums", "chunks"): "coordinator.sees",
    ("sums", "rule"): "protocol.merge",
    ("sums", "memory"): "policies",
    ("chunks", "version"): "evaluate.keep_version",
    ("chunks", "server"): "protocol.server",
    ("chunks", "rule"): "robust-merge",
    ("chunks", "memory"): "policies: chunks and top-k",
    ("server", "memory"): "policies",
    ("rule", "memory"): "robust-merge",
    ("versions", "performance"): "evaluate.keep",
    ("sums", "performance"): "coordinator.sees",
    ("chunks", "performance"): "protocol.fanout",
    ("version", "performance"): "evaluate.keep_version",
    ("server", "performance"): "protocol.server",
    ("rule", "performance"): "policies: robust-merge",
    ("memory", "performance"): "policies",
}
"""Pairs that no scenario can have, and the key that the message names."""
PAIRS = [pair for pair in itertools.combinations(MECHANISMS, 2) if pair not in REFUSED]
FAST = {"stop", "performance"}
GATE = {
    "ledger", "lists", "activity", "rankings", "findings", "poisoners", "server", "rule", "memory",
    ("rankings", "chunks"),
}  # fmt: skip
"""With those of the fast suite, one for each entry of a checkpoint that holds results or models."""


def in_suites(cases):
    """Return the cases, with the markers of those that are not in the fast suite or not in the gate."""
    slow, full = [pytest.mark.slow], [pytest.mark.slow, pytest.mark.full]
    return [
        pytest.param(case, marks=[] if case in FAST else slow if case in GATE else full, id=label(case))
        for case in cases
    ]


def label(case):
    return case if isinstance(case, str) else "-".join(case)


def merged(first, second):
    """Return nested sections of both, with the lists of one followed by those of the other."""
    if isinstance(first, dict) and isinstance(second, dict):
        common = {key: merged(first[key], second[key]) for key in first.keys() & second.keys()}
        return {**first, **second, **common}
    if isinstance(first, list):
        return first + [entry for entry in second if entry not in first]
    return second


def home_of(names):
    """Return where some mechanisms run: with a coordinator if one needs it and none needs gossip."""
    only = [home for home in ("gossip", "star") if any([*MECHANISMS[name]] == [home] for name in names)]
    return (only or ["gossip"])[0]


def combined(names):
    """Return the scenario of some mechanisms."""
    home = home_of(names)
    sections = [MECHANISMS[name].get(home) or MECHANISMS[name]["star"] for name in names]
    return functools.reduce(merged, sections, merged(BASE, HOMES[home]))


@pytest.fixture(autouse=True)
def interruptible():
    """Take Ctrl-C, which a command in the background of a script ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Asking(NullProgress):
    """Asks for the end of the run: at one of its reports, or before the first event if it is 0."""

    def __init__(self, report):
        self._left = report

    def phase(self, text):
        if self._left == 0 and text.startswith("resuming at"):
            signal.raise_signal(signal.SIGINT)

    def tick(self, status):
        self._left -= 1
        if self._left == 0:
            signal.raise_signal(signal.SIGINT)


def written(run):
    """Return all that a run wrote but for dates, times and memory."""
    files = {str(path.relative_to(run.path)): path for path in run.path.rglob("*") if path.is_file()}
    for name in [name for name in files if name.startswith("checkpoints/")] + [
        "manifest.json",
        "summary.json",
    ]:
        files.pop(name, None)
    return {**{name: path.read_bytes() for name, path in files.items()}, **outcome(run.path)}


def around(times, at):
    """Return whether there is something up to the break, and something after it."""
    return bool((times <= at).any() and (times > at).any())


def differs_from_plain(whole, plain, at):
    """Return whether a metric differs up to the break from that of a run without the mechanism."""
    found, without = (
        run.metrics["value"][(run.metrics["time"] <= at) & (run.metrics["metric"] == METRICS[1])].tolist()
        for run in (whole, plain)
    )
    return len(found) == len(without) == BREAK and found != without


SHOWN = {
    "ledger": lambda run, at: around(run.events("privacy")["time"], at),
    "stop": lambda run, at: run.summary["stopped"]["best"]["time"] <= at < run.summary["stopped"]["time"],
    "changes": lambda run, at: around(run.events("change")["time"], at),
    "lists": lambda run, at: len(run.lists["user"]) > 0,
    "versions": lambda run, at: len([*run.path.glob("versions-*.npz")]) > BREAK,
    "by_user": lambda run, at: around(run.by_user["time"], at),
    "groups": lambda run, at: all(group["last"] for group in run.summary["groups"]),
    "activity": lambda run, at: all(group["last"] for group in run.summary["by_activity"]),
    "validated": lambda run, at: run.summary["validated"]["time"] <= at,
    "rankings": lambda run, at: around(run.attacks["time"], at),
    "findings": lambda run, at: around(run.findings["time"], at),
    "network": lambda run, at: run.summary["network"]["dropped"] and is_under_way(run.events("message"), at),
    "churn": lambda run, at: around(run.events("session")["time"], at),
    "sums": lambda run, at: run.summary["secure_sums"]["rounds"] > BREAK,
    "train_loss": lambda run, at: around(run.metrics["time"][run.metrics["metric"] == "train_loss"], at),
    "version": lambda run, at: all(table.any() for table in run.version.values()),
}
"""What a run with a mechanism has to show for it, given the time of the break."""


def is_under_way(messages, at):
    return bool(((messages["sent_at"] <= at) & (messages["time"] > at)).any())


def differing(found, expected):
    """Return the names of what differs between two runs."""
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


def without_sums(found):
    """Return the outcome of a run without its counts of secure sums, which begin at 0 until a resumed run goes on."""
    return {**found, "summary": {**found["summary"], "secure_sums": None}}


def check(names, folder):
    """Stop a run at a report, and again before its next event; resume it, and return the whole run and when it stopped.

    The second stop writes again what the first one wrote, and the end what the whole run wrote.
    """
    scenario = combined(names)
    whole = simulate(scenario, out=folder / "whole")
    stopped = simulate(scenario, out=folder / "run", progress=Asking(BREAK), graceful_stop=True)
    assert stopped.status == "interrupted"
    at_break, time = written(stopped), stopped.summary["virtual_time"]
    again = resume(stopped.path, progress=Asking(0), graceful_stop=True)
    assert again.status == "interrupted"
    assert differing(without_sums(written(again)), without_sums(at_break)) == []
    done = resume(stopped.path)
    assert done.status == "complete"
    assert differing(written(done), written(whole)) == []
    return whole, time


@pytest.mark.parametrize("name", in_suites(MECHANISMS))
@pytest.mark.cases(len(FAST | GATE))
def test_a_mechanism_goes_on_where_it_was(name, tmp_path):
    whole, time = check([name], tmp_path)
    if name in SHOWN:
        assert SHOWN[name](whole, time)
    else:
        plain = simulate(merged(BASE, HOMES[home_of([name])]), out=tmp_path / "plain")
        assert differs_from_plain(whole, plain, time)


@pytest.mark.parametrize("pair", in_suites(PAIRS))
def test_two_mechanisms_go_on_where_they_were(pair, tmp_path):
    whole, time = check(pair, tmp_path)
    assert [name for name in pair if name in SHOWN and not SHOWN[name](whole, time)] == []


@pytest.mark.parametrize("pair", REFUSED, ids=label)
def test_some_pairs_are_refused(pair, tmp_path):
    with pytest.raises(ScenarioError, match=rf"(^|: ){re.escape(REFUSED[pair])}\b"):
        simulate(combined(pair), out=tmp_path / "run")
