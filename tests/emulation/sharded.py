"""Runs divided among shards that are threads of the test's process."""

from __future__ import annotations

import threading

from gossiprec.compute.shards import InProcessChannel, Mailbox, ShardContext
from gossiprec.emulation.carriers.shards.group import ShardGroup
from gossiprec.emulation.carriers.shards.leader import Shard, run_follower
from gossiprec.emulation.run.execution import prepare_follower


def divided(scenario, n):
    """Return a scenario's plain data with its nodes divided among `n` shards."""
    executor = dict(scenario.get("executor", {}))
    inner = executor.pop("name", "auto")
    return {**scenario, "executor": {**executor, "name": "ray", "inner": inner, "shards": n}}


class Threads(ShardGroup):
    """The other shards as threads; give the class itself as `gather`."""

    def __init__(self, scenario, say):
        self.scenario, n = scenario, scenario.executor.shards
        self.mailboxes = [Mailbox() for _ in range(n)]
        self.shard = self.seat_of(0)
        self.threads = []

    def seat_of(self, number):
        return ShardContext(number, len(self.mailboxes), InProcessChannel(number, self.mailboxes))

    def start(self, prepared):
        for number in range(1, len(self.mailboxes)):
            self.threads.append(threading.Thread(target=self._run, args=(number, prepared), daemon=True))
            self.threads[-1].start()

    def _run(self, number, lead):
        try:
            shard, components = Shard(self.seat_of(number)), lead.components
            run_follower(shard, *prepare_follower(components.scenario, components.split, shard))
        except BaseException as problem:
            self.fail(problem)

    def fail(self, problem):
        for mailbox in self.mailboxes:
            mailbox.fail(problem)

    def __exit__(self, kind, error, trace):
        self.fail(SystemExit("the run has ended"))  # after the letters that have come
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()
