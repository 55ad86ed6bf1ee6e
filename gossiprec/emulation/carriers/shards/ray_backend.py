"""The Ray backend of shards: actors, cluster connection, channels between actors, and the group of shards."""

from __future__ import annotations

import asyncio
import importlib
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from gossiprec.base.arrays import I64
from gossiprec.base.errors import ResourceError, ShardLostError
from gossiprec.compute.shards import Channel, Key, Mailbox, ShardContext
from gossiprec.compute.shards.runner import Address, RowLinks
from gossiprec.emulation.assembly.shard_partition import require_ray
from gossiprec.emulation.carriers.shards.group import ShardGroup, check_versions, local_versions
from gossiprec.emulation.progress import Progress
from gossiprec.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from gossiprec.data.split import Split
    from gossiprec.emulation.assembly.prepare import PreparedRun


class ShardActor:
    """An actor for a shard that follows; it receives letters while it works.

    Parameters
    ----------
    number : int
    secret : bytes
        By which the shards of the run know one another.
    """

    def __init__(self, number: int, secret: bytes) -> None:
        import ray

        self._number, self._mailbox = number, Mailbox()
        self._links = RowLinks(number, self._mailbox, secret, ray.util.get_node_ip_address())

    def describe_actor(self, scenario: Mapping[str, Any], cwd: str) -> dict[str, Any]:
        """Return the location and versions of this actor, after changing to `cwd`, because paths may be relative.

        Modules that take seconds to import are imported here, while shard 0 prepares the run.
        """
        import gossiprec.emulation.carriers.shards.leader
        import gossiprec.emulation.run.execution  # noqa: F401

        with suppress(OSError):
            os.chdir(cwd)
        versions = local_versions(load_scenario(scenario))
        return {
            "host": socket.gethostname(), "pid": os.getpid(), "versions": versions, "address": self._links.address
        }  # fmt: skip

    def put(self, sender: int, key: Key, content: Any) -> None:
        """Receive a letter."""
        self._mailbox.put(sender, tuple(key), content)

    def connect(self, addresses: Mapping[int, Address]) -> dict[int, str]:
        """Connect to the other shards for rows; return the reason for each that cannot be reached."""
        return self._links.connect({n: address for n, address in addresses.items() if n != self._number})

    def follow(
        self, scenario: Mapping[str, Any], split: Split, members: Mapping[int, Any], letterbox: Any
    ) -> None:
        """Prepare the run, and follow shard 0 to its end."""
        from gossiprec.emulation.carriers.shards.leader import Shard, run_follower
        from gossiprec.emulation.run.execution import prepare_follower

        exchange = RayChannel(self._number, self._mailbox)
        exchange.links = self._links
        exchange.connect(members, letterbox)
        shard = Shard(ShardContext(self._number, len(members) + 1, exchange))
        run_follower(shard, *prepare_follower(load_scenario(scenario), split, shard))


class LeaderMailbox:
    """The mailbox of shard 0, which is not an actor and fetches its letters."""

    def __init__(self) -> None:
        self._letters: list[tuple[int, Key, Any]] = []
        self._some = asyncio.Event()

    async def put(self, sender: int, key: Key, content: Any) -> None:
        """Store a letter that has arrived."""
        self._letters.append((sender, key, content))
        self._some.set()

    async def take_all(self) -> list[tuple[int, Key, Any]]:
        """Return all letters, when there are any."""
        await self._some.wait()
        self._some.clear()
        letters, self._letters = self._letters, []
        return letters


LOCAL = "local"
REACH_S = 60.0
"""Seconds to wait for an answer of a cluster."""
ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's variable for whether other machines may join; with 0 all its processes listen on the loopback interface."""
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}


def start_local_ray(ray: Any, *, cpus: int, store_bytes: int) -> None:
    """Start Ray on this machine for the given number of processors; other machines cannot reach it.

    Raises
    ------
    ResourceError
        If it does not start, as on a machine that is busy with other work, or if other machines could reach it.
    """
    here = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": store_bytes}
    try:
        with _loopback_only():
            ray.init(address=LOCAL, **here, **QUIET)
    except Exception as error:  # Ray raises many kinds of errors
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ResourceError(
            f"Ray does not start on this machine ({reason}); try again when the machine is less busy, or "
            "start Ray with `ray start --head` and connect to it"
        ) from error

    found = ray.util.get_node_ip_address()
    if found not in ("127.0.0.1", "::1"):
        ray.shutdown()
        raise ResourceError(
            f"Ray listens on {found}, so that other machines can reach it and run code; expected 127.0.0.1; "
            f"set {ONE_MACHINE}=0 in the environment, or start Ray with `ray start --head` and connect to it"
        )


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Let Ray start with the loopback address: the variable for its processes, the constant for this one."""
    constants: Any = importlib.import_module("ray._private.ray_constants")
    variable, constant = os.environ.get(ONE_MACHINE), constants.ENABLE_RAY_CLUSTER
    os.environ[ONE_MACHINE], constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = constant
        os.environ.pop(ONE_MACHINE)
        if variable is not None:
            os.environ[ONE_MACHINE] = variable


def connect_to_cluster(ray: Any, address: str, *, instead: str) -> None:
    """Connect to a cluster.

    Raises
    ------
    ResourceError
        If it does not answer.
    """
    reason = cluster_error(address)
    if reason:
        raise ResourceError(
            f"cannot reach a Ray cluster at {address} ({reason}); start one with `ray start --head` (and "
            f"`ray start --address=HEAD:6379` on the other machines), or {instead}; a cluster that requires "
            "a token also needs RAY_AUTH_MODE=token and the token on this machine"
        )
    ray.init(address=address, **QUIET)


def cluster_error(address: str) -> str:
    """Return the reason why a cluster does not answer, or an empty string.

    The check runs in a process that can be killed, because Ray itself may wait for ever.
    """
    program = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False)"
    command = [sys.executable, "-c", program, address]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=REACH_S, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {REACH_S:.0f} s"
    if not tried.returncode:
        return ""
    return (tried.stderr.strip().splitlines() or [f"status {tried.returncode}"])[-1]


STORE_BYTES = 512 * 2**20
"""Bytes of Ray's object store on this machine, if Ray is started for the run; it holds rows in transit."""
PLACED_S = 120.0
"""Seconds to wait until all shards have a place in the cluster."""
INSTEAD = "set executor.name to auto"


class RayChannel(Channel):
    """Letters between actors: to another shard by a call of its actor, to shard 0 through its mailbox actor.

    Parameters
    ----------
    number : int
        The number of this shard.
    mailbox : Mailbox
        The mailbox of this shard.
    members : mapping of int to actor
    letterbox : actor
        The mailbox actor of shard 0.

    Attributes
    ----------
    links : RowLinks or None
        The links by which rows go, once they are known.
    """

    def __init__(self, number: int, mailbox: Mailbox) -> None:
        self._number, self._mailbox = number, mailbox
        self._members: Mapping[int, Any] = {}
        self._letterbox: Any = None
        self.links: RowLinks | None = None

    def connect(self, members: Mapping[int, Any], letterbox: Any) -> None:
        """Set the addresses of the other shards."""
        self._members, self._letterbox = members, letterbox

    def send(self, to: int, key: Key, content: Any) -> None:
        """Send a letter by Ray's object store."""
        import ray

        if to == 0:
            self._letterbox.put.remote(self._number, key, [ray.put(content)])
        else:
            self._members[to].put.remote(self._number, key, content)

    def send_rows(self, to: int, key: Key, rows: npt.NDArray[Any], some: I64) -> None:
        """Send some rows: by a link if there is one, else by Ray's object store."""
        if self.links is not None and self.links.reaches(to):
            self.links.send(to, key, rows, some)
        else:
            super().send_rows(to, key, rows, some)

    def receive(self, sender: int, key: Key) -> Any:
        """Wait for a letter."""
        return self._mailbox.take(sender, key)


class RayShardGroup(ShardGroup):
    """The other shards of a run as actors.

    Parameters
    ----------
    scenario : Scenario
    progress : Progress

    Raises
    ------
    ResourceError
        If Ray is not installed, no cluster answers, or it has too few processors.
    """

    def __init__(self, scenario: Scenario, progress: Progress) -> None:
        self._scenario, self._progress = scenario, progress
        self._ray = require_ray(INSTEAD)
        self._mailbox = Mailbox()
        self._exchange = RayChannel(0, self._mailbox)
        self.shard = ShardContext(0, scenario.executor.shards, self._exchange)
        self._members: dict[int, Any] = {}
        self._letterbox: Any = None
        self._requested: list[Any] = []
        self._own = False
        self._threads: list[threading.Thread] = []
        self._secret = secrets.token_bytes(32)

    def __enter__(self) -> RayShardGroup:
        """Connect to the cluster, or start one."""
        needed = self._scenario.executor.shards * self._scenario.executor.thread_count()
        if not self._ray.is_initialized():
            self._connect(needed)
            self._own = True
        try:
            self._check_room(needed)
            self._place()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """End the actors, and Ray if it was started or joined for the run."""
        if self._exchange.links is not None:
            self._exchange.links.close()
        for actor in (*self._members.values(), self._letterbox):
            with suppress(Exception):  # the cluster itself may have failed
                self._ray.kill(actor)
        for thread in self._threads:  # a thread that calls Ray after it is shut down would abort the process
            thread.join(REACH_S)
        self._leave()

    def _place(self) -> None:
        """Request a place for each other shard, and for shard 0's letters."""
        ray, n = self._ray, self._scenario.executor.shards
        threads = self._scenario.executor.thread_count()
        member = ray.remote(ShardActor).options(num_cpus=threads, max_concurrency=n + 4)
        # the mailbox actor runs on the machine of shard 0, so that letters are read from its own object store
        node = ray.get_runtime_context().get_node_id()
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        self._letterbox = ray.remote(LeaderMailbox).options(num_cpus=0, scheduling_strategy=here).remote()
        self._progress.phase(f"starting {n - 1} shards on Ray")
        self._members = {number: member.remote(number, self._secret) for number in range(1, n)}
        self._exchange.connect(self._members, self._letterbox)
        about, members = (self._scenario.resolved(), os.getcwd()), self._members.values()
        self._requested = [member.describe_actor.remote(*about) for member in members]

    def start(self, prepared: PreparedRun) -> None:
        """Check that the other shards are in place and run the same versions, and let them prepare the run.

        Raises
        ------
        ResourceError
            If they find no place, or have other versions of the code or of libraries.
        """
        ray, n, threads = self._ray, self._scenario.executor.shards, self._scenario.executor.thread_count()
        try:
            reports = ray.get(self._requested, timeout=PLACED_S)
        except ray.exceptions.GetTimeoutError as error:
            raise ResourceError(
                f"the Ray cluster could not place all of {n - 1} shards with {threads} processors each "
                f"within {PLACED_S:.0f} s: {self._free()}; end other jobs there, lower executor.shards or "
                "executor.threads, or add machines"
            ) from error
        about = dict(zip(self._members, reports, strict=True))
        theirs = {number: (found["host"], found["versions"]) for number, found in about.items()}
        check_versions(local_versions(self._scenario), theirs)
        for number, report in about.items():
            self._progress.phase(f"shard {number} on {report['host']}, process {report['pid']}")
        self._link({number: report["address"] for number, report in about.items()})
        # the leader's scenario, which names the executor that `inner: auto` has become
        components, letterbox = prepared.components, self._letterbox
        given = components.scenario.resolved(), ray.put(components.split), self._members, letterbox
        runs = {member.follow.remote(*given): number for number, member in self._members.items()}
        jobs = ((_watch, (ray, runs, self._mailbox)), (_empty, (ray, letterbox, self._mailbox)))
        self._threads = [threading.Thread(target=job, args=parts, daemon=True) for job, parts in jobs]
        for thread in self._threads:
            thread.start()

    def _link(self, addresses: dict[int, Address]) -> None:
        """Connect all shards for rows, and report those that cannot reach one another."""
        links = RowLinks(0, self._mailbox, self._secret, self._ray.util.get_node_ip_address())
        self._exchange.links, addresses = links, {0: links.address, **addresses}
        problems = {0: links.connect({n: address for n, address in addresses.items() if n})}
        found = self._ray.get([member.connect.remote(addresses) for member in self._members.values()])
        problems |= dict(zip(self._members, found, strict=True))
        for sender, reasons in problems.items():
            for receiver, reason in reasons.items():
                self._progress.phase(
                    f"shard {sender} cannot reach shard {receiver} directly ({reason}); its rows go through "
                    "Ray, which is slower"
                )

    def _connect(self, needed: int) -> None:
        address = self._scenario.executor.address
        address = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
        if address == LOCAL or (address == "auto" and cluster_error(address)):
            self._progress.phase("starting Ray on this machine")
            # all shards wait for the slowest, so none gives way to shard 0
            os.environ.setdefault("RAY_worker_niceness", "0")
            start_local_ray(self._ray, cpus=needed, store_bytes=STORE_BYTES)
        else:
            connect_to_cluster(
                self._ray, address, instead="set executor.address to local, to start Ray here for this run"
            )

    def _check_room(self, needed: int) -> None:
        """Refuse a cluster that is too small for the shards.

        Raises
        ------
        ResourceError
        """
        executor, there = self._scenario.executor, int(self._ray.cluster_resources().get("CPU", 0))
        if there < needed:
            raise ResourceError(
                f"executor.shards: {executor.shards} shards with {needed // executor.shards} threads each need "
                f"{needed} processors, but the Ray cluster has {there}; lower executor.shards or executor.threads, "
                "or add machines (ray start --address=HEAD:6379)"
            )

    def _free(self) -> str:
        total, free = self._ray.cluster_resources(), self._ray.available_resources()
        return f"{int(free.get('CPU', 0))} of its {int(total.get('CPU', 0))} processors are free"

    def _leave(self) -> None:
        if self._own:
            self._ray.shutdown()


def _watch(ray: Any, runs: dict[Any, int], mailbox: Mailbox) -> None:
    """Report to shard 0 when another shard dies or fails."""
    while runs:
        ended, _ = ray.wait(list(runs), num_returns=1)
        number = runs.pop(ended[0])
        try:
            ray.get(ended[0])
        except ray.exceptions.RayTaskError as error:  # the actor is alive, and would raise it again
            mailbox.fail(error.cause if isinstance(error.cause, BaseException) else error)
            return
        except ray.exceptions.RayError as error:
            mailbox.fail(ShardLostError(number, _reason(error)))
            return
        except BaseException:  # Ray is being shut down
            return


def _empty(ray: Any, letterbox: Any, mailbox: Mailbox) -> None:
    """Bring letters to shard 0 until Ray is shut down or a letter is lost with its sender, which others notice."""
    with suppress(Exception, SystemExit):  # Ray raises that when it is shut down
        while True:
            letters = ray.get(letterbox.take_all.remote())
            contents = ray.get([content for *_, (content,) in letters])
            for (sender, key, _), content in zip(letters, contents, strict=True):
                mailbox.put(sender, tuple(key), content)


def _reason(error: Exception) -> str:
    """Return Ray's reason for a death, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "exit" in line.lower() or "died" in line.lower()]
    return (causes or lines or [type(error).__name__])[-1].partition(" Some common causes")[0].rstrip(".")
