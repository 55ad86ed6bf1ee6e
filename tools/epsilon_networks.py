"""Small random networks: does any claim of ``gossiprec epsilon`` or ``influence`` contradict a run without a user?

Each network is drawn from a seed: protocol, clocks, latency, loss, merge rule, nodes that go offline, secure sums,
pieces of models, Sybils. It is run once, and once more without the data of each user::

    python -m tools.epsilon_networks [--count 300] [--seed 1] [--first 0] [--jobs 2]

prints one JSON line with the numbers of networks that epsilon accepted (by method), refused, and got wrong, and the
faults. The exit status is 1 if there are any. A network is wrong if

- a node has another model without a user, although epsilon towards it is 0, or its hops are infinite;
- `influence` has infinite hops and a distance above 0;
- the replay of epsilon does not give the content of each message to 1e-6;
- epsilon is not that of an account in plain numpy (:mod:`tools.plain_epsilon`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec import counterfactual, influence, network_epsilon
from gossiprec.base.errors import GossipRecError, ScenarioError
from gossiprec.compute.plan.tape import Op, TapeEvent, TapeSegment, operations_by_slot, split_between
from gossiprec.emulation import prepare, simulate
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.run.contact_replay import ContactTape, LinearReplay, replay_linear, replay_rounds
from gossiprec.emulation.run.network_epsilon import NetworkEpsilon
from gossiprec.runs import Run
from gossiprec.scenario import Scenario, load_scenario
from tools.plain_epsilon import is_plain, plain_epsilons

Draw = np.random.Generator
Plain = dict[str, Any]
Matrix = npt.NDArray[np.float64]

TOLERANCE = 1e-6
ROLES = ("gossip", "rounds", "reach", "open", "reach", "rounds", "gossip", "reach", "rounds", "open")
"""The kinds of networks, in turn: two linear ones, runs with the reach only, and runs with ways without noise."""


def draw_network(seed: int, number: int) -> Plain:
    """Return the scenario of a network as plain data."""
    draw = np.random.default_rng([seed, number])
    kind = ROLES[number % len(ROLES)]
    n = int(draw.integers(5, 7))
    sections = {"gossip": _gossip, "rounds": _rounds, "reach": _reach, "open": _open_way}[kind](draw, n)
    protocol = sections["protocol"]
    wakes = protocol.get("wakes") or protocol["rounds"]
    if protocol["name"] == "push-pull":
        n = 8  # in fewer nodes everything reaches every node
    return {
        "name": f"network-{number}",
        "seed": int(draw.integers(2**31)),
        "plots": False,
        "dataset": {
            "name": "synthetic", "users": n, "items": 24, "interactions": 8 * n,
            "split": {"name": "leave_last_k", "test": 1, "validation": 2},
        },
        "model": {"name": "gmf", "dim": 2},
        "training": {"optimizer": "sgd", "batch_size": "full", "learning_rate": 0.1, "negatives": 1},
        "evaluate": {"every": wakes, "metrics": ["val_recall@3"]},
        "executor": {"name": "batched", "wave_size": 1},
        "policies": _noise(draw),
        **sections,
    }  # fmt: skip


def _one(draw: Draw, *choices: Any) -> Any:
    return choices[int(draw.integers(len(choices)))]


def _noise(draw: Draw, *units: str) -> list[Plain]:
    noise = {"name": "dp-sgd", "epsilon": "inf", "noise_multiplier": _one(draw, 2.0, 5.0)}
    noise |= {"unit": _one(draw, *(units or ("user", "interaction"))), "clip_norm": 0.5}
    if draw.random() < 0.2:  # enough for one local update
        noise |= {"epsilon": 1.2, "noise_multiplier": 5.0}
    return [noise] if draw.random() < 0.5 else [{"name": "share-less"}, noise]


def _network(draw: Draw) -> Plain:
    """Return a network; half of them have times that are equal to those of wakes."""
    latency = _one(draw, 1.0, 0.5, 1.0, {"law": "exponential", "mean": 0.5})
    if isinstance(latency, float):
        latency = {"law": "constant", "value": latency}
    more: list[Plain] = [
        {},
        {"loss": 0.3},
        {"duplication": 0.3},
        {"reordering": {"share": 0.4, "delay": 1.0}},
    ]
    return {"latency": latency, **_one(draw, *more)}


def _clock(draw: Draw) -> Plain:
    return _one(draw, {"law": "constant"}, {"law": "exponential"}, {"law": "exponential", "redraw": False})  # type: ignore[no-any-return]


def _gossip(draw: Draw, n: int) -> Plain:
    train, average = _one(draw, ("wake", "pairwise"), ("wake", "all"), ("receive", "pairwise"))
    view = _one(draw, {"size": 2}, {"graph": {"family": "ring", "k": 2}}, {"graph": {"family": "complete"}})
    protocol = {
        "name": "rand-gossip", "fanout": int(draw.integers(1, 3)), "view": view, "wake": _clock(draw),
        "wakes": int(draw.integers(1, 4)), "train_on": train, "average": average,
        "merge": _one(draw, "mean", "samples") if train == "wake" else "mean",
    }  # fmt: skip
    return {"protocol": protocol, **({"network": _network(draw)} if draw.random() < 0.7 else {})}


def _rounds(draw: Draw, n: int) -> Plain:
    protocol = {
        "name": "fedavg", "rounds": int(draw.integers(2, 5)), "participation": _one(draw, 0.5, 1.0),
        "merge": _one(draw, "mean", "samples"),
    }  # fmt: skip
    network = _one(
        draw, {}, {"loss": 0.2}, {"latency": {"law": "uniform", "low": 0.1, "high": 0.4}}, _network(draw)
    )
    return {"protocol": protocol, **({"network": network} if network else {})}


def _peers(draw: Draw, **more: Any) -> Plain:
    return {
        "name": "rand-gossip", "fanout": 2, "view": {"size": 2}, "wake": _clock(draw), "wakes": 2, "merge": "mean",
        **more,
    }  # fmt: skip


def _reach(draw: Draw, n: int) -> Plain:
    """Return a network of which only the reach is known, often without noise by sample, which takes longer."""
    server = {"name": "fedavg", "rounds": 3, "merge": "mean", "participation": _one(draw, 0.5, 1.0)}
    away = {
        "sessions": {
            "online": {"law": "exponential", "mean": 1.0},
            "offline": {"law": "exponential", "mean": 0.5},
        }
    }
    noise = _noise(draw, "user")
    sybils = [{"name": "a-hum", "number": int(draw.integers(1, 3)), "targets": [23]}]
    grid = {
        **_peers(draw),
        "wake": {"law": "constant"},
        "fanout": n,
        "view": {"graph": {"family": "complete"}},
    }
    choices: list[Plain] = [
        {"protocol": {"name": "push-pull", "wakes": 1}},
        {"protocol": {"name": "push-pull", "wakes": _one(draw, 1, 2), "receivers": _one(draw, 1, 2)}},
        {"protocol": {"name": "push-pull", "wakes": 2, "wake": _clock(draw), "exchange": "pull"}},
        {"protocol": {"name": "push-pull", "wakes": 2}, "network": _network(draw)},
        {"protocol": {"name": "epidemic", "wakes": 3, "receivers": 1}, "network": _network(draw)},
        {"protocol": {"name": "semi-decentralised", "rounds": 3, "clusters": 2, "fanout": 0, "merge": "mean"}},
        {
            "protocol": _peers(draw, wakes=3),
            "churn": {**away, "model": _one(draw, "kept", "reset"), "messages": _one(draw, "lost", "held")},
        },
        {
            "protocol": _peers(draw, wakes=3),
            "network": {"compute": {"time": {"law": "constant", "value": _one(draw, 0.5, 1.5)}}},
        },
        {"protocol": _peers(draw), "attackers": sybils},
        {"protocol": server, "attackers": sybils},
        {"protocol": server, "coordinator": {"sees": "sums", "masks": False}},
        {"protocol": {**server, "merge": "median"}, "network": {"loss": 0.1}},
        {"protocol": {**server, "merge": {"name": "fltrust", "root": {"users": [0, 1]}}}},
        {"protocol": _peers(draw), "policies": [{"name": "chunks", "pieces": 2}, *noise]},
        {"protocol": _peers(draw), "policies": [{"name": "random-k", "share": 0.5}, *noise]},
        {"protocol": _peers(draw), "policies": [{"name": "robust-merge", "rule": "median"}, *noise]},
        {"protocol": grid, "policies": [{"name": "secure-neighbours", "masks": False}, *noise]},
    ]  # fmt: skip
    chosen: Plain = _one(draw, *choices)
    return {"policies": noise, **chosen}


def _open_way(draw: Draw, n: int) -> Plain:
    """Return a network in which something follows data without noise."""
    ring = {"graph": {"family": "ring", "k": 2}}
    sybils = [{"name": "a-hum", "number": 1, "targets": [23]}]
    root = {"name": "fltrust", "root": {"users": 2}}
    heads = {"name": "semi-decentralised", "rounds": 2, "clusters": 2}
    choices: list[Plain] = [
        {"protocol": {**heads, "merge": _one(draw, "mean", "samples")}},
        {"protocol": _peers(draw, fanout=1, view=ring, merge="samples"), "attackers": sybils},
        {
            "protocol": {"name": "fedavg", "rounds": 3, "participation": 0.4, "client_model": "none"},
            "policies": [], "executor": {"name": "reference"},
        },
        {"protocol": {"name": "fedavg", "rounds": 2, "participation": 0.4, "merge": root}, "policies": []},
        {"protocol": {"name": "pers-gossip", "wakes": 2, "view": {"size": 2}}},
        {"protocol": _peers(draw, fanout=1, view={"graph": {"family": "nearest-by-taste", "k": 2}})},
        {
            "protocol": _peers(draw, fanout=1, wakes=3, view=ring),
            "stop": {"measure": "val_recall@3", "patience": 1}, "evaluate": {"every": 1, "metrics": ["val_recall@3"]},
        },
        {
            "protocol": _peers(draw, fanout=1, wakes=3, view=ring),
            "network": {"compute": {"time": {"law": "constant", "value": 0.1}, "per_sample": True}},
        },
    ]  # fmt: skip
    chosen: Plain = _one(draw, *choices)
    return {"policies": _noise(draw, "user"), **chosen}


@dataclass
class Finding:
    """The result of a network.

    Attributes
    ----------
    number : int
    method : str
        ``linear``, ``rounds`` or ``reach``; ``refused`` if epsilon refuses the run.
    is_compared : bool
        Whether its epsilons were compared with those of plain numpy.
    faults : list of str
    """

    number: int
    method: str = "refused"
    is_compared: bool = False
    faults: list[str] = field(default_factory=list)


def examine_network(seed: int, number: int, folder: Path) -> Finding:
    """Run a network, and again without each user, and compare the claims with what has changed."""
    scenario, found = load_scenario(draw_network(seed, number)), Finding(number)
    run = simulate(scenario, out=folder / "run")
    prepared = prepare(scenario)
    try:
        claim = network_epsilon(run.path)
    except ScenarioError:
        claim = None
    if claim is None:
        _play(prepared)
    else:
        replay, found.method = replay_of(run, prepared, claim)
        if replay is None:
            _play(prepared)
        else:
            found.faults += message_faults(prepared, replay)
        if found.method != "reach" and is_plain(run.scenario):
            found.is_compared = found.method == "linear"
            found.faults += account_faults(claim, plain_epsilons(run), found.method)
        found.faults += claim_faults(claim, scenario, prepared)
    if claim is None or number % 4 == 0:  # it takes as long as all the rest
        with_data = np.flatnonzero(prepared.components.split.train.sizes).tolist()
        found.faults += influence_faults(run, with_data[number % len(with_data)], folder)
    return found


def _play(prepared: PreparedRun) -> None:
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass


def _models(prepared: PreparedRun) -> npt.NDArray[np.float32]:
    """Return the model of every node, shape (n_nodes, size)."""
    store = prepared.executor.store
    found: npt.NDArray[np.float32] = store.load(prepared.planner.current_rows)[:, : store.layout.size]
    return found


def replay_of(run: Run, prepared: PreparedRun, claim: NetworkEpsilon) -> tuple[LinearReplay | None, str]:
    """Return the replay by which the claims of a run were computed, and its method."""
    if claim.linear is None:
        return None, "reach"
    schedule: Any = prepared.schedule
    tape = ContactTape.of(run, prepared.components.protocol, schedule)
    federated = prepared.components.protocol.has_coordinator
    by_rounds = federated and replay_rounds(tape, prepared.components.split.n_users) is not None
    return replay_linear(tape, prepared.components.merge_weights), "rounds" if by_rounds else "linear"


def claim_faults(claim: NetworkEpsilon, scenario: Scenario, prepared: PreparedRun) -> Iterator[str]:
    """Yield the nodes of which the model depends on a user, although the claim says that it does not."""
    models = _models(prepared)
    roots = [user for _, users in prepared.components.choose_root_users() for user in users.tolist()]
    for victim in np.flatnonzero(prepared.components.split.train.sizes).tolist():
        if victim in roots:
            continue  # a run without the data of a public user is refused
        left_out = scenario.dataset.model_copy(update={"without": (victim,)})
        without = prepare(scenario.with_(dataset=left_out))
        _play(without)
        changed = (models != _models(without)).any(axis=1)
        for node in np.flatnonzero(changed).tolist():
            if node != victim and not claim.epsilon[victim, node] > 0:
                yield f"node {node} depends on user {victim}, with epsilon {claim.epsilon[victim, node]:g}"
            elif node != victim and np.isinf(claim.hops[victim, node]):
                yield f"node {node} depends on user {victim}, with infinite hops"


def influence_faults(run: Run, victim: int, folder: Path) -> Iterator[str]:
    """Yield the nodes that nothing has reached, and that influence says have changed."""
    other = counterfactual(run.path, [victim], out=folder / "without")
    try:
        found = influence(run.path, other.path, k=2)
    except GossipRecError as error:
        yield f"influence: {error}"
        return
    for place in np.flatnonzero(np.isinf(found.hops) & (found.distance != 0)).tolist():
        yield f"influence: infinite hops to {found.users[place]}, at a distance of {found.distance[place]:.2g}"


def account_faults(claim: NetworkEpsilon, expected: Matrix, method: str) -> Iterator[str]:
    """Yield the pairs with another epsilon than that of plain numpy; by rounds it may be larger.

    By rounds all earlier versions are taken as seen.
    """
    for victim, observer in itertools.product(range(len(expected)), range(expected.shape[1])):
        given, right = claim.epsilon[victim, observer], expected[victim, observer]
        if victim == observer or (method == "rounds" and given > right):
            continue
        if abs(given - right) > TOLERANCE * max(1.0, right):
            yield f"epsilon of user {victim} towards {observer}: {given:.6g}, in plain numpy {right:.6g}"


def message_faults(prepared: PreparedRun, replay: LinearReplay) -> Iterator[str]:
    """Yield the messages of which a replay has other content than the run."""
    recorder = Recorder(prepared)
    recorder.play()
    moves = np.array(recorder.moves).reshape(len(recorder.moves), -1)
    if len(moves) != len(replay.owner) or len(recorder.pushes) != len(replay.pushes):
        yield (
            f"replay: {len(replay.owner)} local updates and {len(replay.pushes)} pushes; the run has {len(moves)} and "
            f"{len(recorder.pushes)}"
        )
        return
    for number, content in enumerate(recorder.pushes):
        gap = np.abs(recorder.start + replay.pushes[number] @ moves - content).max()
        if gap > TOLERANCE * max(1.0, float(np.abs(content).max())):
            yield f"replay: message {number}, of node {replay.sender[number]}, is wrong by {gap:.2g}"


class Recorder:
    """A run event by event, with the change of each local update and the content of each push.

    All but the user rows, which are never merged. For runs of whole models that are merged by weights.

    Attributes
    ----------
    start : ndarray
        The model of every node at the start.
    moves, pushes : list of ndarray
    """

    def __init__(self, prepared: PreparedRun) -> None:
        self.moves: list[Matrix] = []
        self.pushes: list[Matrix] = []
        self._prepared = prepared
        self._roles = prepared.components.protocol.roles.tolist()
        self._operations = operations_by_slot(prepared.components.protocol.role_behaviours)
        self._weights = prepared.components.merge_weights
        self._trained = np.zeros(len(self._roles), np.int64)
        self._push_of: dict[int, int] = {}
        self._senders: list[int] = []
        self.start = self._shared()[0]

    def _shared(self) -> Matrix:
        layout = self._prepared.components.layout
        found: Matrix = _models(self._prepared)[:, layout.items.start :].astype(np.float64)
        return found

    def play(self) -> None:
        """Carry out the run."""
        runner, schedule = self._prepared.tape_runner(), self._prepared.schedule

        def carry_out(segment: TapeSegment) -> None:
            for event in split_between(segment, range(len(segment.kind) + 1)):
                before = self._shared()
                runner.run_segment(event)
                self._note(event, before, self._shared())

        for _ in schedule.play(carry_out):
            pass

    def _note(self, event: TapeSegment, before: Matrix, after: Matrix) -> None:
        slot, node, message = int(event.slots[0]), int(event.node[0]), int(event.message[0])
        if slot < 0:
            return
        received = message if event.kind[0] == TapeEvent.DELIVER else None
        self._note_operations(node, slot, received, (before[node], after[node]))
        if Op.PUSH in self._operations[self._roles[node]][slot]:
            sent = range(event.first_message, event.first_message + len(event.receiver))
            self._push_of.update(dict.fromkeys(sent, len(self.pushes)))
            self.pushes.append(after[node])
            self._senders.append(node)
            if self._prepared.schedule.deliveries_implied:
                for number, receiver in zip(sent, event.receiver.tolist(), strict=True):
                    self._note_operations(receiver, 1, number, (before[receiver], after[receiver]))

    def _note_operations(
        self, node: int, slot: int, message: int | None, models: tuple[Matrix, Matrix]
    ) -> None:
        """Note the local update of a node, which begins from the received model if it merges one first."""
        begin, end = models
        operations = self._operations[self._roles[node]][slot]
        settings = self._prepared.executor.work.node_settings
        trains = Op.TRAIN in operations and self._prepared.components.node_load.samples[node] > 0
        if not trains or self._trained[node] >= settings.most_updates[node]:
            return
        self._trained[node] += 1
        if message is not None:
            push, own = self._push_of[message], 0.0
            content, weight = self.pushes[push], self._weights[self._senders[push]]
            if Op.BLEND in operations:
                own = self._weights[node] / (self._weights[node] + weight) if weight else 1.0
            begin = own * begin + (1 - own) * content
        self.moves.append(end - begin)


def folder_for_runs() -> Path | None:
    """Return a folder in memory, in which files need no disk; None if there is none."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else None


def examine_networks(seed: int, numbers: range, jobs: int = 1) -> list[Finding]:
    """Return the result of each network, by a number of processes."""
    if jobs == 1:
        return [_examine_in_folder(seed, number) for number in numbers]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(partial(_examine_in_folder, seed), numbers, chunksize=5))


def _examine_in_folder(seed: int, number: int) -> Finding:
    with tempfile.TemporaryDirectory(dir=folder_for_runs()) as folder:
        return examine_network(seed, number, Path(folder))


def summarise(findings: list[Finding]) -> dict[str, Any]:
    """Return the numbers of networks, and the faults."""
    methods = Counter(found.method for found in findings)
    refused = methods.pop("refused", 0)
    return {
        "networks": len(findings),
        "checked": len(findings) - refused,
        "refused": refused,
        "by_method": dict(sorted(methods.items())),
        "compared": sum(found.is_compared for found in findings),
        "wrong": sum(bool(found.faults) for found in findings),
        "faults": {str(found.number): found.faults for found in findings if found.faults},
    }


def main() -> int:
    """Examine networks and print the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="number of networks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first network")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    options = parser.parse_args()
    begin = time.perf_counter()
    numbers = range(options.first, options.first + options.count)
    findings = examine_networks(options.seed, numbers, options.jobs)
    found = summarise(findings)
    print(json.dumps({**found, "seconds": round(time.perf_counter() - begin, 1)}, indent=1))
    return int(found["wrong"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
