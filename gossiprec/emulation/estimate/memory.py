"""The memory that a run takes, for prepared and for estimated runs, and the check that the machine has it."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass

import numpy as np

from gossiprec.aggregators import Aggregator
from gossiprec.arrays import I64
from gossiprec.compute.executors.base import STACK_BYTES
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.data.data_sizes import BYTES_TO_DRAW
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.data_loading import reads_files
from gossiprec.emulation.estimate.libraries import LOADING, MIB, PARTS, libraries_bytes
from gossiprec.errors import ResourceError
from gossiprec.machine import available_bytes, resident_bytes
from gossiprec.models import Layout
from gossiprec.modes import RunMode
from gossiprec.modes.base import COPIES_PER_STEP
from gossiprec.old_names import forward
from gossiprec.protocols import Protocol
from gossiprec.scenario import Scenario

OF_A_WAKE, OF_A_MESSAGE = 40, 60
"""Bytes of the events known ahead, with what the log, the planner and observers look up by message."""


def peak_rss_mib() -> float:
    """Return the largest resident size of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MIB if sys.platform == "darwin" else peak / 1024


def check_memory(needed: dict[str, int]) -> None:
    """Refuse a run that the memory cannot hold.

    Raises
    ------
    ResourceError
        Naming the parts, what there is, and what to lower.
    """
    total, available = sum(needed.values()), available_for(needed)
    if total > available:
        parts = ", ".join(f"{name} {size / MIB:,.0f} MiB" for name, size in needed.items())
        raise ResourceError(
            f"the run needs {total / MIB:,.0f} MiB ({parts}), but only {available / MIB:,.0f} MiB are "
            "available; reduce dataset.limit_users or dataset.users, model.dim, protocol.wakes or "
            "protocol.rounds, the number of observers or of their momenta, or observers.reference_items, or "
            "set executor.storage to float16"
        )


def available_for(needed: dict[str, int]) -> int:
    """Return the bytes that a run can have: the free ones, and what this process has of Python and libraries.

    Parameters
    ----------
    needed : dict of str to int
        Bytes by part. What the process has counts as far as these parts name it.
    """
    of_process = sum(size for part, size in needed.items() if part in PARTS)
    return available_bytes() + min(resident_bytes(), of_process)


def event_bytes(n_wakes: int, n_messages: int) -> int:
    """Return what events that are known ahead take."""
    return OF_A_WAKE * n_wakes + OF_A_MESSAGE * n_messages


def check_event_memory(n_wakes: int, messages: int) -> None:
    """Refuse a run whose events, which are known ahead, the memory cannot hold.

    Parameters
    ----------
    n_wakes : int
        Wakes of all nodes together.
    messages : int
        Messages that a wake sends, at the least.

    Raises
    ------
    ResourceError
    """
    needed, available = event_bytes(n_wakes, n_wakes * messages), available_bytes()
    if needed > available:
        raise ResourceError(
            f"the events of {n_wakes:,} wakes need {needed / MIB:,.0f} MiB, but {available / MIB:,.0f} MiB are "
            "available; lower protocol.wakes or protocol.rounds, or dataset.limit_users"
        )


@dataclass(frozen=True)
class MemoryInputs:
    """What decides how much memory a run takes, observers apart.

    Attributes
    ----------
    n_interactions : int
        Of all users, in all parts of the split.
    samples : ndarray of int64, shape (n,)
        Of one pass over the data of each user, or of each of some users.
    waiting : int
        Models that wait in inboxes at a time.
    n_rewritten : int
        Nodes whose messages are rewritten.
    side_by_side : bool
        Whether waiting updates are looked at together.
    n_versions : int
        That a server publishes at a time; 1 without one.
    n_wakes, n_messages : int
    """

    scenario: Scenario
    protocol: Protocol
    mode: RunMode
    training: TrainingSettings
    layout: Layout
    n_interactions: int
    samples: I64
    waiting: int
    n_rewritten: int
    side_by_side: bool
    n_versions: int
    n_wakes: int
    n_messages: int

    @classmethod
    def of(cls, cast: RunComponents, *, n_wakes: int, n_messages: int) -> MemoryInputs:
        """Return that of a run that is set up."""
        return cls(
            scenario=cast.scenario,
            protocol=cast.protocol,
            mode=cast.mode,
            training=cast.training,
            layout=cast.layout,
            n_interactions=cast.split.n_interactions,
            samples=cast.feed.n_samples(cast.training.negatives),
            waiting=cast.waiting,
            n_rewritten=int(cast.outgoing.rewrites.sum()),
            side_by_side=any(stacks_updates(receiver.rule) for receiver in cast.receivers.values()),
            n_versions=1 if cast.server is None else cast.server.n_versions,
            n_wakes=n_wakes,
            n_messages=n_messages,
        )

    @property
    def row_bytes(self) -> int:
        """Of a model version as it is stored."""
        return self.layout.row_size * np.dtype(self.scenario.executor.storage).itemsize

    @property
    def has_moments(self) -> bool:
        """Whether the optimizer keeps two numbers for each that it trains."""
        return self.training.optimizer == "adam"


@dataclass(frozen=True)
class MemoryEstimate:
    """What a run takes, observers apart: bytes by part, and rows beside those of the nodes' own versions."""

    bytes: dict[str, int]
    rows: int


def stacks_updates(rule: Aggregator) -> bool:
    """Return whether an aggregator lays waiting updates side by side."""
    return rule.of_changes and rule.withstands


def process_bytes(extent: MemoryInputs, executor: str) -> dict[str, int]:
    """Return the bytes that a process takes for any run of a kind, by part: libraries, loading, stacks.

    What is free again once the data are loaded stays with the process.

    Parameters
    ----------
    extent : Extent
    executor : str
        Name of the executor that trains.
    """
    scenario = extent.scenario
    libraries = libraries_bytes(
        scenario, executor, of_clients=not extent.mode.nodes_hold_models, reads_files=reads_files(scenario)
    )
    stacked = executor == "batched" and extent.mode.nodes_hold_models
    more = {"training": _of_stack(extent)} if stacked else {}
    return {**libraries, LOADING: BYTES_TO_DRAW * extent.n_interactions, **more}


def estimate_memory(extent: MemoryInputs) -> MemoryEstimate:
    """Return what data, events, versions, those in waiting, in inboxes and for servers, and optimizer state take."""
    common = {"data": _of_data(extent), "events": event_bytes(extent.n_wakes, extent.n_messages)}
    own = extent.mode.memory(extent)
    return MemoryEstimate(common | own.bytes, own.rows)


def _of_stack(extent: MemoryInputs) -> int:
    """Return the bytes of the models that are trained together, and of the items that their sequences draw."""
    layout, scenario, n_nodes = extent.layout, extent.scenario, extent.protocol.n_nodes
    at_once = max(1, min(STACK_BYTES["cpu"] // (4 * layout.row_size), n_nodes))
    longest = getattr(scenario.model.options, "max_length", 0)  # of sequence models
    length = min(longest, -(-extent.n_interactions // n_nodes))
    drawn = length * scenario.training.negatives * layout.item_width
    return COPIES_PER_STEP * 4 * at_once * (layout.row_size + drawn)


def _of_data(extent: MemoryInputs) -> int:
    """Return what a split and a feed take: each interaction in its part and in order of time, and bits of pairs."""
    return 2 * 4 * extent.n_interactions + extent.protocol.n_users * -(-extent.layout.n_items // 8)


forward(__name__)
