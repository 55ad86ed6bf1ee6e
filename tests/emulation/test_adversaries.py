"""Active adversaries: nodes of users that see, forge, and find, in gossip and in federation."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.adversary import Adversary
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.errors import PluginError, ScenarioError
from gossiprec.base.options import Options
from gossiprec.emulation import replay, simulate
from gossiprec.rules import ReportsFindings
from gossiprec.rules.servers import SERVERS, Downlink, Server
from gossiprec.study.api import study
from gossiprec.testing import check_adversary, temporarily_registered
from tests.emulation.ended_early import often, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_resume import check
from tests.emulation.test_shards import told
from tests.emulation.tiny_runs import SINGLE, carried_out, final_models, tiny

FOLDER = Path(__file__).parents[2] / "examples" / "gossiprec-tutorial"
FEDAVG = {"name": "fedavg", "rounds": 8}
UPDATES = {**FEDAVG, "client_model": "none"}
GOSSIP = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 8}
PROTOCOLS = {"gossip": GOSSIP, "models": FEDAVG, "updates": UPDATES}
PROBE = {"name": "probe", "nodes": [1, 4, 7]}


@pytest.fixture
def probe(monkeypatch):
    """Register the adversary of the tutorial as if its package were installed."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = dict(ATTACKS._members)
    import gossiprec_tutorial.probe as module

    ATTACKS._members.setdefault("probe", module.Probe)
    yield module.Probe
    ATTACKS._members.clear()
    ATTACKS._members.update(before)
    for name in [name for name in sys.modules if name.startswith("gossiprec_tutorial")]:
        del sys.modules[name]


class Mirror(Adversary):
    """Sends the item rows that it received last, and notes what it sent and got."""

    Options = Options
    measures = ("last",)

    def observe(self, seen):
        assert len(seen) == 1
        own = self.memory[int(seen.receivers[0])]
        own["rows"] = seen.gather(np.arange(self.context.scorer.layout.n_items, dtype=np.int32))[0]
        own["times"] = [*own.get("times", []), float(seen.times[0])]

    def forge(self, message, base, push):
        rows = self.memory[push.node].get("rows")
        return None if rows is None else replace(message, items=rows)

    def findings(self, now):
        yield Finding(
            "last", {}, max((own.get("times", [0.0])[-1] for own in self.memory.values()), default=0.0)
        )


class Zero(Adversary):
    """Sends zeros."""

    Options = Options

    def forge(self, message, base, push):
        assert base is None or base.items.shape[0] == self.context.scorer.layout.n_items
        return replace(message, items=np.zeros_like(message.items), shared=np.zeros_like(message.shared))


class Rewrites(Adversary):
    """Sends an update of other items than it trained."""

    Options = Options

    def forge(self, message, base, push):
        return replace(message, touched=np.array([0, 3]), items=base.items[[0, 3]] + 5)


class Bad(Adversary):
    """Forges what does not fit."""

    class Options(Options):
        how: str

    def forge(self, message, base, push):
        n = message.items.shape[1]
        return {
            "rows": lambda: replace(message, items=message.items[:-1]),
            "width": lambda: replace(message, items=np.zeros((len(message.items), n + 1), np.float32)),
            "shared": lambda: replace(message, shared=np.zeros(1000, np.float32)),
            "users": lambda: replace(message, users=None),
            "nan": lambda: replace(message, items=np.full_like(message.items, np.nan)),
            "kind": lambda: "no model",
            "other": lambda: (self.memory[1], None)[1],
        }[self.options.how]()


@pytest.fixture
def registered():
    with temporarily_registered(ATTACKS, {"mirror": Mirror, "zero": Zero, "rewrites": Rewrites, "bad": Bad}):
        yield


def test_a_node_sends_what_it_received_last(registered):
    """Of two nodes one mirrors the other: its own rows never leave."""
    prepared = carried_out(tiny(adversaries=[{"name": "mirror", "nodes": [2, 6]}]))
    honest = carried_out(tiny())

    changed = (final_models(prepared)[:12] != final_models(honest)[:12]).any(axis=1)

    assert changed.sum() > 6
    [attack] = [attack for attack in prepared.attacks if isinstance(attack, Mirror)]
    assert set(attack.memory) == {2, 6}
    assert all(np.diff(own["times"]).min() >= 0 for own in attack.memory.values())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.cases(1)
def test_an_adversary_that_sends_every_message_as_it_is_changes_nothing(protocol, tmp_path):
    class Quiet(Adversary):
        Options = Options

        def forge(self, message, base, push):
            message.items[:] = 0  # a copy
            return None

    run = tiny(protocol=PROTOCOLS[protocol], observers=[], executor={"name": "auto"})
    with temporarily_registered(ATTACKS, {"quiet": Quiet}):
        quiet = simulate({**run, "adversaries": [{"name": "quiet", "nodes": "all"}]}, out=tmp_path / "quiet")
    plain = simulate(run, out=tmp_path / "plain")

    for name in ("events.mplog", "metrics.csv", "positions.csv"):
        assert (quiet.path / name).read_bytes() == (plain.path / name).read_bytes()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.cases(2)
def test_clients_forge_what_the_coordinator_gets(protocol, registered, tmp_path):
    run = tiny(
        protocol=PROTOCOLS[protocol], observers=[], adversaries=[{"name": "zero", "nodes": {"fraction": 0.5}}]
    )
    found = simulate(run, out=tmp_path / "run")
    plain = simulate({**run, "adversaries": []}, out=tmp_path / "plain")

    assert found.metrics["value"].tolist() != plain.metrics["value"].tolist()


def test_an_update_may_name_other_items(registered, tmp_path):
    entry = {"name": "rewrites", "nodes": [2]}
    run = simulate(tiny(protocol=UPDATES, observers=[], adversaries=[entry]), out=tmp_path / "run")
    sent = run.events("message")
    sizes = {node: set(sent["size_bytes"][sent["sender"] == node].tolist()) for node in (2, 3)}

    assert len(sizes[2]) == 1
    assert max(sizes[2]) < min(sizes[3])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.full
def test_the_example_is_the_same_on_all_executors_shards_and_when_resumed(protocol, probe, tmp_path):
    scenario = often(
        protocol=PROTOCOLS[protocol], observers=[], adversaries=[PROBE], executor={"name": "auto"}
    )
    whole, _ = check(tmp_path, scenario)
    assert replay(whole.path).confirmed
    shards = simulate(divided(scenario, 2), out=tmp_path / "shards", make_shard_group=Threads)
    assert told(shards.path) == told(whole.path)
    two = simulate(
        {**scenario, "executor": {"name": "auto", "threads": 2, "wave_size": 3}}, out=tmp_path / "two"
    )
    assert outcome(two.path)["findings.csv"] == outcome(whole.path)["findings.csv"]
    if protocol == "gossip":
        assert {row["measure"] for row in whole.summary["findings"]} >= {"heard", "item_auc"}


class Turning(ReportsFindings, Server):
    """A malicious coordinator: sends the opposite of some items, and reports how far the answers came back."""

    measures = ("came_back",)
    checkpointed = ("came",)
    _came = float("nan")

    def round(self, published, aggregated, answers, round):
        version = aggregated.copy()
        if len(answers.clients):
            self._came = float(np.linalg.norm(aggregated - published))
            items = version[: round.layout.items.stop - round.layout.items.start]
            items[::2] *= -1
        return Downlink(version[None])

    def findings(self):
        return {"came_back": self._came}


@pytest.mark.full
def test_a_malicious_coordinator_is_a_server(tmp_path):
    """It decides what clients are sent; observers of the coordinator score what they answer."""
    curious = {
        "name": "entropy-mia",
        "who": "coordinator",
        "community_size": 3,
        "momentum": 0,
        "item_scores": True,
    }
    scenario = often(observers=[curious], protocol={**FEDAVG, "server": "turning"})
    with temporarily_registered(SERVERS, {"turning": Turning}):
        malicious, _ = check(tmp_path, scenario)
    honest = simulate({**scenario, "protocol": FEDAVG}, out=tmp_path / "honest")

    found, plain = (
        {row["measure"]: row["value"] for row in run.summary["findings"]} for run in (malicious, honest)
    )
    assert found["came_back"] > 0
    assert found["item_auc"] != plain["item_auc"]


@pytest.mark.slow
@pytest.mark.full
def test_a_study_varies_adversaries_and_observers(probe, tmp_path):
    """No run with an adversary serves other observers, because nothing tells their findings from its own."""
    base = tiny(observers=[], executor={"name": "reference"}, protocol={**GOSSIP, "wakes": 4})
    taken = {str(n): {"adversaries": [{**PROBE, "nodes": [1, 4, 7][:n]}] if n else []} for n in (0, 1, 3)}
    seen = {"none": {"observers": []}, "each": {"observers": [SINGLE]}}
    found = study(
        {
            "name": "taken",
            "base": base,
            "seeds": 1,
            "axes": {"taken": {"values": taken}, "seen": {"values": seen}},
            "measures": ["hr@5", "max_aac", "item_auc[probe]", "heard"],
            "picture": {"x": "taken", "by": "seen", "y": ["item_auc[probe]"]},
        },
        out=tmp_path / "study",
    )
    rows = found.frame("runs").dropna(subset="value")
    have = {tuple(pair) for pair in rows[["measure", "taken", "seen"]].astype(str).to_numpy()}

    assert have == {
        *(("hr@5", n, who) for n in taken for who in seen),
        *((name, n, who) for name in ("item_auc", "heard") for n in ("1", "3") for who in seen),
        *(("max_aac", n, "each") for n in taken),
    }
    page = found.report().read_text()
    assert "item_auc" in page
    found.plot()
    assert (tmp_path / "study" / "lines.csv").read_text().count("item_auc") >= 4


@pytest.mark.slow
@pytest.mark.full
def test_the_example_keeps_the_contract(probe):
    check_adversary(probe)


@pytest.mark.full
def test_state_outside_of_the_memory_is_caught(tmp_path):
    class Counts(Zero):
        count = 0

        def forge(self, message, base, push):
            self.count += 1
            return replace(message, items=message.items * np.float32(1 / self.count))

    with pytest.raises(AssertionError, match=r"Keep all that changes during a run in `memory`"):
        check_adversary(Counts)


NODE = r"adversaries: bad: push 0 of node \d+"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("rows", rf"{NODE}: items: found shape \(39, 8\); expected \(40, 8\)"),
        ("width", rf"{NODE}: items: found shape \(40, 9\); expected \(40, 8\)"),
        ("shared", rf"{NODE}: shared: found shape \(1000,\); expected \("),
        (
            "users",
            rf"{NODE}: users: found a message that sends none; expected the node's own, which sends one",
        ),
        ("nan", rf"{NODE}: items: found NaN or infinite values; expected finite numbers"),
        ("kind", rf"{NODE}: forge\(\) returned str; expected a MessagePayload, or None"),
        (
            "other",
            r"adversaries: found the memory of node 1 read while node \d+ observes or forges; expected that of",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_one_message(how, words, registered, tmp_path):
    entry = {"name": "bad", "nodes": [2, 1], "how": how}
    with pytest.raises(ScenarioError, match=words):
        simulate(tiny(adversaries=[entry]), out=tmp_path / "run")


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"adversaries": [{"name": "zero"}]}, "adversaries.0.nodes: is missing"),
        ({"adversaries": [{"name": "zero", "nodes": []}]}, "adversaries.0.nodes: "),
        ({"adversaries": [{"name": "zero", "nodes": [99]}]}, "found node 99, but node ids range from 0 to 11"),
        (
            {"protocol": FEDAVG, "adversaries": [{"name": "zero", "nodes": [12]}]},
            "found node 12, but node ids range from 0 to 11; a coordinator or head acts by protocol.server",
        ),
        ({"adversaries": [{"name": "zero", "nodes": {"fraction": 0.01}}]}, "selects no node"),
        ({"adversaries": [SINGLE | {"nodes": [1]}]}, "'cda', which only observes; list it under observers"),
        ({"observers": [{"name": "zero"}]}, "'zero', which forges messages, .* list it under adversaries"),
        (
            {"adversaries": [{"name": "zero", "nodes": [1, 2]}, {"name": "mirror", "nodes": [2]}]},
            r"adversaries.1.nodes: found node 2, which adversaries.0 has already; expected each node in one entry",
        ),
        (
            {"adversaries": [{"name": "zero", "nodes": "all"}], "protocol": {"name": "central", "epochs": 2}},
            "adversaries: is about messages or nodes",
        ),
    ],
)  # fmt: skip
def test_adversaries_that_do_not_fit_the_scenario_are_refused(sections, words, registered, tmp_path):
    with pytest.raises(ScenarioError, match=words):
        simulate(tiny(**sections), out=tmp_path / "run")


def test_only_own_data_can_be_read(tmp_path):
    class Reads(Zero):
        def __init__(self, options, context):
            super().__init__(options, context)
            context.feed_of_nodes(np.array([3]))

    with (
        temporarily_registered(ATTACKS, {"reads": Reads}),
        pytest.raises(PluginError, match=r"adversaries: reads requested the data of nodes \[3\]"),
    ):
        simulate(tiny(adversaries=[{"name": "reads", "nodes": [2]}]), out=tmp_path / "run")
