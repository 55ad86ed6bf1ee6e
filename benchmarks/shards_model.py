"""A model of the speed of 2 to 64 shards, and its check with 2 and 3 shards on a link with a delay.

    python benchmarks/shards_model.py [--nodes 600] [--rounds 40] [--delays 0,2,10] [--predict 8000]

Gossip as in ``benchmarks/shards.py``; needs ``gossiprec[ray]``. The model plays the routes of all shards wave by wave
(:func:`wall_seconds`). Its rates are those of a run of two shards without a delay; the shares of merges and of batches
in them are measured apart. The delay within this machine is fitted so that two shards take as long as that run: it
holds all waiting that the model does not know of, as for a processor with other work. One JSON line for each result:

- ``rates``: seconds per local update, merged row, byte sent and stored, batch, wave, and task planned (one thread), and
  ``link_s``, the fitted delay; ``ping_s``: the time until another thread has one row; ``slowdown``: wall time of
  training per processor time, because of other work.
- ``rule``: rows and MiB that all shards send per wave, by graph and rule of partition, as planned; ``chosen``: whether
  a run would take this rule. A small world's nodes are numbered along its ring.
- ``check``: wall seconds of the rounds after the first quarter, predicted and measured (the fastest of ``--repeats``),
  by shards, delay and Mbit/s; ``error`` is predicted / measured - 1; ``waits`` and ``waited``: the share of waiting,
  predicted and measured; ``same_bytes``: whether the run has sent as many bytes as were planned.
- ``machines``: predicted speed-up of machines with two threads over one of them, with a delay of 0.1 ms, if nothing
  else runs on them: all rates are divided by ``slowdown``. ``no_overlap``: if a shard waited for each batch that it
  sends to arrive; ``waits``: share of waiting.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from common import emit, say
from shards import numbers, scenario_of


class Rates(NamedTuple):
    """Seconds of one thread: per local update, merged row, byte sent, byte stored, batch, wave, and planned task."""

    update_s: float = 0.0
    merge_s: float = 0.0
    send_byte_s: float = 0.0
    store_byte_s: float = 0.0
    batch_s: float = 0.0
    wave_s: float = 0.0
    plan_s: float = 0.0


@dataclass(frozen=True)
class Network:
    """The network between machines: each sends and receives at `bytes_per_s`, and a message takes `delay_s` more.

    A sender waits while more than `buffer_bytes` of its rows have not left.
    """

    delay_s: float
    bytes_per_s: float
    buffer_bytes: float = 4 << 20
    overlap: bool = True


class Wave(NamedTuple):
    """One shard's part of a wave: work before and after rows arrive, and the batches (shard, wave, bytes)."""

    ready_s: float
    waiting_s: float
    sends: Sequence[tuple[int, int, float]]
    receives: Sequence[tuple[int, float]]


def wall_seconds(plan: Sequence[Sequence[Wave]], rates: Rates, net: Network, n: int) -> tuple[float, float]:
    """Return the wall seconds of a plan's waves (by wave and shard), and the mean seconds that a shard waited."""
    clock, sending, receiving, waited = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    arrives: dict[tuple[int, int, int], float] = {}
    for number, wave in enumerate(plan):
        for shard, part in enumerate(wave):
            for to, due, size in part.sends:
                clock[shard] += rates.batch_s + size * rates.send_byte_s
                sending[shard] = max(clock[shard], sending[shard]) + size / net.bytes_per_s
                receiving[to] = max(sending[shard], receiving[to] + size / net.bytes_per_s)
                arrives[shard, to, due] = receiving[to] + net.delay_s
                full = sending[shard] - net.buffer_bytes / net.bytes_per_s if net.overlap else receiving[to]
                waited[shard] += max(full - clock[shard], 0)
                clock[shard] = max(full, clock[shard])
        for shard, part in enumerate(wave):
            clock[shard] += rates.wave_s + part.ready_s
            for sender, size in part.receives:
                late = max(arrives.pop((sender, shard, number)) - clock[shard], 0)
                waited[shard] += late
                clock[shard] += late + size * rates.store_byte_s
            clock[shard] += part.waiting_s
    return float(clock.max()), float(waited.mean())


class Planned:
    """The plans of a run, and the owners of its nodes by rule of partition."""

    def __init__(self, nodes: int, items: int, rounds: int, ring: int | None) -> None:
        from gossiprec.compute.shards import InProcessChannel, Mailbox, ShardContext
        from gossiprec.emulation import prepare
        from gossiprec.emulation.carriers.shards.leader import Shard
        from gossiprec.scenario import load_scenario

        executor = {"name": "ray", "shards": 2, "inner": "reference", "threads": 1}
        raw = scenario_of(nodes, items, rounds, ring, **executor)
        raw["evaluate"]["every"] = max(rounds // 4, 1)
        if ring:
            raw["protocol"]["view"]["graph"] = {"family": "watts-strogatz", "k": ring, "p": 0.1}
        prepared = prepare(
            load_scenario(raw), carrier=Shard(ShardContext(0, 2, InProcessChannel(0, [Mailbox(), Mailbox()])))
        )
        self.nodes, self.row_bytes, self._deliveries = (
            nodes,
            prepared.components.layout.row_size * 4,
            prepared.schedule.deliveries,
        )
        self._fixed = ring is not None
        self.graph = f"small world, {ring} neighbours" if ring else "views"
        self._last: tuple[Any, Any] = None, None
        begin, self.plans = time.process_time(), []
        for tick in prepared.schedule.play(lambda segment: None):
            self.plans.append(prepared.planner.plan(tick.segment))
        n_tasks = sum(len(plan.order) for plan in self.plans)
        self.plan_s = (time.process_time() - begin) / n_tasks

    def owners(self, rule: str, n: int) -> Any:
        """Return the shard of each node: by ``blocks``, by ``contacts``, or by the rule that a run chooses."""
        from gossiprec.emulation.assembly import shard_partition as partition

        if rule == "blocks":
            return np.arange(self.nodes) * n // self.nodes
        if rule == "contacts":
            return partition.bisect_by_contacts(self._deliveries, self.nodes, n)
        return partition.partition_nodes(self._deliveries if self._fixed else None, self.nodes, n, [])

    def waves(self, rates: Rates, owner: Any, n: int, threads: int) -> list[list[list[Wave]]]:
        """Return the parts of all shards, by plan, wave and shard."""
        from gossiprec.compute.shards import NodePartition, RowRouter

        routers = [RowRouter(NodePartition(owner, n, shard), keeps_first=False) for shard in range(n)]
        found = []
        for plan in self.plans:
            program, routes = plan.program, [router.shard_plan(plan) for router in routers]
            cost = np.diff(program.merge_offsets) * rates.merge_s + (program.update >= 0) * rates.update_s

            def seconds(tasks: Any, cost: Any = cost) -> float:
                return max(float(cost[tasks].sum()) / threads, float(cost[tasks].max(initial=0)))

            found.append([
                [
                    Wave(
                        seconds(route.waves[wave].ready),
                        seconds(route.waves[wave].waiting),
                        [(b.shard, b.wave, len(b.rows) * self.row_bytes) for b in route.outgoing.get(wave, ())],
                        [(b.shard, len(b.rows) * self.row_bytes) for b in route.waves[wave].incoming],
                    )
                    for route in routes
                ]
                for wave in range(len(routes[0].waves))
            ])  # fmt: skip
        return found

    def bytes_sent(self, n: int) -> float:
        """Return the bytes that all shards send."""
        waves = self.waves(Rates(), self.owners("auto", n), n, 1)
        return sum(size for plan in waves for wave in plan for part in wave for _, _, size in part.sends)

    def seconds(
        self, rates: Rates, net: Network, n: int, threads: int, first: int = 0
    ) -> tuple[float, float]:
        """Return the predicted wall seconds of the plans from number `first` on, and the share of waiting."""
        key = (rates, n, threads)
        if self._last[0] != key:
            self._last = key, self.waves(rates, self.owners("auto", n), n, threads)
        waves = self._last[1]
        done = [wall_seconds(each, rates, net, n) for each in waves]
        planning = [len(plan.order) * rates.plan_s for plan in self.plans]
        total = sum(wall for wall, _ in done[first:]) + sum(planning[first:])
        return total, sum(waited for _, waited in done[first:]) / total


def kernel_rates(nodes: int, items: int, rounds: int) -> tuple[float, float]:
    """Return processor seconds per local update and per merged row, of one thread in one process."""
    from gossiprec.emulation import prepare
    from gossiprec.emulation.progress import Stopwatch
    from gossiprec.scenario import load_scenario

    raw = scenario_of(nodes, items, rounds, None, name="fused", threads=1)
    prepared = prepare(load_scenario(raw))
    executor, waves = prepared.executor, []
    run = executor.run

    def timed(program: Any, tasks: Any) -> None:
        begin = time.thread_time()
        run(program, tasks)
        took = time.thread_time() - begin
        merges = program.merge_offsets[tasks + 1] - program.merge_offsets[tasks]
        waves.append(((program.update[tasks] >= 0).sum(), merges.sum(), took))

    executor.run = timed  # type: ignore[method-assign]
    runner = prepared.tape_runner(Stopwatch())
    for _ in prepared.schedule.play(runner.run_segment):
        pass
    table = np.array(waves[len(waves) // 4 :], np.float64)  # the first touch fresh memory
    (update_s, merge_s), *_ = np.linalg.lstsq(table[:, :2], table[:, 2])
    return float(update_s), max(float(merge_s), 0.0)


def link_rates(row_bytes: int) -> tuple[float, float, float]:
    """Return the seconds of sending a byte and a batch, and the time until another thread has a row."""
    from gossiprec.compute.shards import Mailbox
    from gossiprec.compute.shards.runner import RowLinks

    mailboxes = [Mailbox(), Mailbox()]
    ends = [RowLinks(number, mailboxes[number], b"s" * 32, "127.0.0.1") for number in range(2)]
    ends[0].connect({1: ends[1].address})
    found = []
    for size in (1, 64):
        rows, times = np.ones((size, row_bytes // 4), np.float32), []
        for number in range(60):
            begin = time.perf_counter()
            ends[0].send(1, (size, number), rows)
            sent = time.perf_counter()
            mailboxes[1].take(0, (size, number))
            times.append((sent - begin, time.perf_counter() - sent))
        found.append(np.median(times, axis=0))
    for end in ends:
        end.close()
    byte_s = (found[1][0] - found[0][0]) / (63 * row_bytes)
    return byte_s, max(found[0][0] - byte_s * row_bytes, 0.0), float(found[0][1])


def fitted_rates(planned: Planned, asked: argparse.Namespace) -> tuple[Rates, float, float]:
    """Print and return the rates, the delay within this machine, and wall time of training per processor time."""
    update_s, merge_s = kernel_rates(asked.nodes, asked.items, asked.rounds)
    byte_s, batch_s, ping_s = link_rates(planned.row_bytes)
    took, shards = measured(asked, 2)
    total = {name: sum(shard[name] for shard in shards) for name in shards[0]}
    n_merges = sum(len(plan.program.merge_row) for plan in planned.plans)
    computing = total["computed_s"] / (total["updates"] * update_s + n_merges * merge_s)
    sending = total["sent_s"] / (total["bytes"] * byte_s + total["batches"] * batch_s)
    n_tasks, first = sum(len(plan.order) for plan in planned.plans), shards[0]
    parts = [first[f"{part}_s"] for part in ("computed", "sent", "stored", "waited", "routed")]
    rest = sum(took) - sum(parts) - planned.plan_s * n_tasks
    rates = Rates(
        update_s * computing, merge_s * computing, byte_s * sending, total["stored_s"] / total["bytes"],
        batch_s * sending, max(rest, 0.0) / first["waves"], planned.plan_s + first["routed_s"] / n_tasks,
    )  # fmt: skip
    low, high = 0.0, 0.1
    for _ in range(30):
        middle = (low + high) / 2
        wall, _ = planned.seconds(rates, Network(middle, np.inf), 2, 1, first=1)
        low, high = (middle, high) if wall < sum(took[1:]) else (low, middle)
    emit(**rates._asdict(), link_s=high, ping_s=ping_s, slowdown=computing)
    return rates, high, computing


class SlowMailbox:
    """A mailbox behind an artificial network: rows arrive late, and no faster than a rate."""

    def __init__(self, mailbox: Any, network: Network) -> None:
        self.fail, self._put, self._network = mailbox.fail, mailbox.put, network
        self._free_at, self._lock = 0.0, threading.Lock()

    def put(self, sender: int, key: Any, rows: Any) -> None:
        """Put rows when they would have arrived; return when the next could begin to arrive."""
        with self._lock:  # all senders share the connection of this machine
            wait = max(self._free_at - time.perf_counter(), 0) + rows.nbytes / self._network.bytes_per_s
            self._free_at = time.perf_counter() + wait
        time.sleep(wait)
        threading.Timer(self._network.delay_s, self._put, (sender, key, rows)).start()


def slow_shards(network: Network) -> Any:
    """Return a context in which the shards of a run are behind an artificial network."""
    from gossiprec.compute.shards.runner import RowLinks
    from gossiprec.emulation.carriers.shards import ray_backend

    def links(number: int, mailbox: Any, *rest: Any) -> RowLinks:
        return RowLinks(number, SlowMailbox(mailbox, network), *rest)  # type: ignore[arg-type]

    class SlowActor(ray_backend.ShardActor):
        """The actor of a shard, in a process of its own."""

        def __init__(self, *given: Any) -> None:
            ray_backend.RowLinks = links  # type: ignore[assignment, attr-defined]
            super().__init__(*given)

    return mock.patch.multiple(ray_backend, RowLinks=links, ShardActor=SlowActor)


def measured(
    asked: argparse.Namespace, n: int, network: Network | None = None
) -> tuple[list[float], list[dict[str, Any]]]:
    """Run on `n` shards; return shard 0's wall seconds for each plan, and the summary of each shard."""
    from gossiprec import simulate
    from gossiprec.emulation.assembly.tape_runner import TapeRunner

    executor = {"name": "ray", "shards": n, "inner": "fused", "threads": 1, "address": "local"}
    raw = scenario_of(asked.nodes, asked.items, asked.rounds, None, **executor)
    raw["evaluate"]["every"] = max(asked.rounds // 4, 1)
    took, run = [], TapeRunner.run_segment

    def timed(self: TapeRunner, segment: Any) -> None:
        begin = time.perf_counter()
        run(self, segment)
        took.append(time.perf_counter() - begin)

    with (
        mock.patch.object(TapeRunner, "run_segment", timed),
        slow_shards(network) if network else nullcontext(),
        tempfile.TemporaryDirectory(prefix="gossiprec-shards-") as folder,
    ):
        shards: list[dict[str, Any]] = (simulate(raw, out=Path(folder) / "run").summary or {})["shards"]
    return took, shards


def traffic(items: int, rounds: int, shards: Sequence[int]) -> None:
    """Print what shards send per wave, by graph and rule."""
    for ring, n in itertools.product((None, 4), shards):
        planned = Planned(2000, items, rounds, ring)
        for rule in ("blocks", "contacts") if ring else ("blocks",):
            owner = planned.owners(rule, n)
            waves = planned.waves(Rates(), owner, n, 1)
            sent = [size for plan in waves for wave in plan for part in wave for _, _, size in part.sends]
            count = sum(len(plan) for plan in waves)
            emit(
                rule=rule, graph=planned.graph, shards=n,
                chosen=bool((owner == planned.owners("auto", n)).all()),
                rows_per_wave=sum(sent) / planned.row_bytes / count, mib_per_wave=sum(sent) / count / 2**20,
            )  # fmt: skip


def check(rates: Rates, link_s: float, planned: Planned, asked: argparse.Namespace) -> None:
    """Print predictions next to measurements."""
    links = [(delay, np.inf) for delay in asked.delays] + [(0.0, asked.mbit)]
    for n, (delay_ms, mbit_s) in itertools.product(asked.shards, links):
        net = Network(link_s + delay_ms / 1e3, mbit_s * 125e3)
        predicted, waits = planned.seconds(rates, net, n, 1, first=1)
        slow = Network(delay_ms / 1e3, mbit_s * 125e3)
        runs = [measured(asked, n, slow) for _ in range(asked.repeats)]
        took, shards = min(runs, key=lambda run: sum(run[0][1:]))
        emit(
            check=n, delay_ms=delay_ms, mbit_s=mbit_s, predicted_s=predicted, measured_s=sum(took[1:]),
            error=predicted / sum(took[1:]) - 1, waits=waits,
            waited=sum(shard["waited_s"] for shard in shards) / n / sum(took),
            same_bytes=sum(shard["bytes"] for shard in shards) == planned.bytes_sent(n),
        )  # fmt: skip


def machines(rates: Rates, planned: Planned) -> None:
    """Print the predicted speed-ups."""
    alone, _ = planned.seconds(rates, Network(0, np.inf), 1, 2)
    for n, gbit in itertools.product((2, 4, 8, 16, 32, 64), (1, 10)):
        net = Network(1e-4, gbit * 125e6)
        wall, waits = planned.seconds(rates, net, n, 2)
        without, _ = planned.seconds(rates, replace(net, overlap=False), n, 2)
        emit(
            machines=n, gbit_s=gbit, nodes=planned.nodes, graph=planned.graph, speed_up=alone / wall, waits=waits,
            no_overlap=alone / without,
        )  # fmt: skip


def main() -> None:
    """Measure and print the lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=600)
    parser.add_argument("--items", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--shards", type=numbers, default=[2, 3])
    parser.add_argument(
        "--delays", type=lambda text: [float(part) for part in text.split(",")], default=[0.0, 2.0, 10.0]
    )
    parser.add_argument("--mbit", type=float, default=1000.0)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--predict", type=int, default=8000, metavar="NODES")
    asked = parser.parse_args()
    planned = Planned(asked.nodes, asked.items, asked.rounds, None)
    rates, link_s, slowdown = fitted_rates(planned, asked)
    say("bytes by rule")
    traffic(asked.items, 8, (2, 8))
    say("checking")
    check(rates, link_s, planned, asked)
    say("predicting")
    for ring in (None, 4):
        machines(Rates(*(rate / slowdown for rate in rates)), Planned(asked.predict, asked.items, 8, ring))


if __name__ == "__main__":
    main()
