"""A divided run that ended early, or lost a shard, goes on to the bytes of a run that did not."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import ResourceError, ShardLostError
from gossiprec.compute.shards import InProcessChannel, ShardContext
from gossiprec.emulation import resume, simulate
from tests.emulation.ended_early import OFTEN, Patient, ended_early, often
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_shards import AWAY, COALITIONS, FEDAVG, LARGE, PERSONAL, ROBUST, SLOW, told
from tests.emulation.tiny_runs import SINGLE
from tests.slow import slow_except_first

OBSERVED = {"observers": [SINGLE, COALITIONS]}
WORLDS = {
    "slow": often(**OBSERVED, network=SLOW, **LARGE),
    "away": often(**OBSERVED, network=SLOW, churn=AWAY, policies=ROBUST),
    "pers-gossip": often(**PERSONAL, **OBSERVED, network=SLOW),
    "server": often(protocol={**FEDAVG, "server": "adam"}, observers=[], network=SLOW, **LARGE),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return what a run in one process has written, each made once."""
    made = {}

    def of(world):
        if world not in made:
            made[world] = told(simulate(WORLDS[world], out=tmp_path_factory.mktemp(world) / "run").path)
        return made[world]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.full
def test_a_divided_run_goes_on_divided_otherwise(world, whole, tmp_path):
    run = simulate(
        divided({**WORLDS[world], "checkpoint": OFTEN}, 3),
        out=tmp_path / "run",
        make_shard_group=Threads,
        progress=Patient(4),
    )
    assert run.status == "interrupted"

    assert told(resume(run.path, shards=2, make_shard_group=Threads).path) == whole(world)


@pytest.mark.parametrize("world", slow_except_first(["away", "pers-gossip", "server"]))
@pytest.mark.cases(1)
def test_a_divided_run_goes_on_in_one_process(world, whole, tmp_path):
    run = simulate(
        divided({**WORLDS[world], "checkpoint": OFTEN}, 2),
        out=tmp_path / "run",
        make_shard_group=Threads,
        progress=Patient(5),
    )

    assert told(resume(run.path, shards=1).path) == whole(world)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["slow"])
@pytest.mark.full
def test_a_run_of_one_process_goes_on_divided(world, whole, tmp_path):
    run = ended_early(tmp_path / "run", WORLDS[world])

    assert told(resume(run.path, shards=3, make_shard_group=Threads).path) == whole(world)


class Mortal(InProcessChannel):
    """Dies when it has sent so many letters; then its shard is noticed to be gone."""

    def __init__(self, number, mailboxes, life):
        super().__init__(number, mailboxes)
        self._life = life

    def send(self, to, key, content):
        self._life -= 1
        if self._life == 0:
            raise ShardLostError(self._number, "killed by signal 9")
        super().send(to, key, content)


class Dying(Threads):
    """Threads of which number 1 dies, again and again as often as lives are left in :attr:`lives`."""

    lives: list[int] = []  # noqa: RUF012

    def seat_of(self, number):
        if number != 1 or not self.lives:
            return super().seat_of(number)
        n = len(self.mailboxes)
        return ShardContext(number, n, Mortal(number, self.mailboxes, self.lives.pop(0)))


@pytest.mark.slow
@pytest.mark.parametrize("life", [3, 40], ids=["before-a-checkpoint", "after-some"])
@pytest.mark.full
def test_a_run_that_loses_a_shard_goes_on_by_itself(life, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(Dying, "lives", [life])
    say = Patient()
    run = simulate(
        divided({**WORLDS["slow"], "checkpoint": OFTEN}, 3),
        out=tmp_path / "run",
        make_shard_group=Dying,
        progress=say,
    )

    assert told(run.path) == whole("slow")
    assert say.notes == [
        "shard 1 died: killed by signal 9; restarting that shard and resuming from the last checkpoint"
    ]


@pytest.mark.slow
@pytest.mark.full
def test_a_shard_that_dies_twice_ends_the_run_with_a_plain_message(tmp_path, monkeypatch):
    monkeypatch.setattr(Dying, "lives", [40, 9])
    with pytest.raises(ResourceError, match=r"shard 1 died twice .*gossiprec resume .*run") as error:
        simulate(
            divided({**WORLDS["slow"], "checkpoint": OFTEN}, 3),
            out=tmp_path / "run",
            make_shard_group=Dying,
            progress=Patient(),
        )
    assert not isinstance(error.value, ShardLostError)
