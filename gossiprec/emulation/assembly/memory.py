"""The memory of prepared and estimated runs, and the check that the machine has it.

The sizes of Python and of the libraries are resident sizes, measured on Linux (x86-64, Python 3.11, numba 0.68, torch
2.13 for the CPU, scikit-learn 1.9, matplotlib 3.11, pyarrow 26) with ``python benchmarks/memory.py --phases``, which
prints the size of the process at each phase of small runs. They do not depend on what this process has loaded, so a
scenario has the same estimate in every process.
"""

from __future__ import annotations

import math

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.base.errors import ResourceError
from gossiprec.base.machine import available_bytes, resident_bytes
from gossiprec.compute.executors.base import STACK_BYTES
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.data_loading import SMALL_DRAWS, drawing_bytes, reads_files
from gossiprec.models import MODELS
from gossiprec.models.feeds.base import member_width
from gossiprec.modes import COPIES_PER_STEP, MemoryInputs, StoreMemory
from gossiprec.native.kernel_cache import has_compiled_kernels
from gossiprec.rules.aggregators import Aggregator
from gossiprec.scenario import Scenario
from gossiprec.scenario.registries import late_imports

MIB = 2**20
LOADING = "data while loading"
PYTHON = 131
"""MiB of Python and of the modules that every run imports: numpy, numba, SciPy's special functions, pydantic, SimPy."""
OF_A_MODULE = {"sklearn": 138, "pyarrow": 54, "dp_accounting": 10, "networkx": 11}
"""MiB of the libraries that some runs import; scikit-learn with pandas, pyarrow and its parts of SciPy."""
KERNELS = 63
"""MiB of the compiler's library and of a run's compiled kernels, once they are in memory."""
COMPILING = 125
"""MiB that compiling the kernels of nodes adds if none are cached; the kernels of clients add little."""
TORCH = {"reference": 187, "batched": 241, "central": 246, "clients": 247}
"""MiB of torch and of the modules of it that an executor takes; compiled clients' executor imports ``batched``."""
WORKING = {"reference": 20, "batched": 84, "central": 12}
"""MiB that torch's first training takes: modules that it imports late, and memory pools."""
MATPLOTLIB, PICTURES = 26, 114
"""MiB of the library that draws the figures at the end, and of drawing, pandas and pyarrow included."""
PARTS = frozenset(["python", *OF_A_MODULE, "kernels", "compiling", "torch", LOADING])
"""Parts of an estimate that belong to the process rather than to the run."""


def figure_bytes(scenario: Scenario, needed: dict[str, int]) -> dict[str, int]:
    """Return the bytes that figures take beyond the memory that the run has freed before they are drawn.

    Parameters
    ----------
    scenario : Scenario
    needed : dict of str to int
        Bytes of all other parts.
    """
    given_back = sum(size for part, size in needed.items() if part == LOADING or part not in PARTS)
    more = (MATPLOTLIB if "sklearn" in needed else PICTURES) * MIB - given_back
    return {"pictures": more} if scenario.plots and more > 0 else {}


OF_A_WAKE, OF_A_MESSAGE = 40, 60
"""Bytes of an event that is known ahead, including the tables of the log, the planner and observers."""


DIVIDED = frozenset(
    [
        "parameters",
        "versions in waiting",
        "moments",
        "inboxes",
        "rewritten messages",
        "first versions",
        "observers",
    ]
)
"""Parts that shards divide among them; each of them has all other parts."""
MOST_SHARDS = 64


def count_machines(needed: dict[str, int], available: int) -> str:
    """Return the number of machines with as much memory that a run takes, as a sentence.

    Parameters
    ----------
    needed : dict of str to int
        Bytes by part, more than are available.
    available : int
        Bytes.
    """
    total, divided = sum(needed.values()), sum(size for part, size in needed.items() if part in DIVIDED)
    free = available - (total - divided)
    shards = -(-divided // free) if free > 0 else math.inf
    if divided and shards <= MOST_SHARDS:
        return (
            f"or divide it among {shards} machines like this one (executor: {{name: ray, shards: {shards}}})"
        )
    machines = -(-total // max(available, 1))
    return (
        f"it takes the memory of {machines:,} machines like this one, but {(total - divided) / MIB:,.0f} MiB of it "
        "cannot be divided among machines (docs/shards.md)"
    )


def check_memory(needed: dict[str, int]) -> None:
    """Refuse a run that does not fit into memory.

    Raises
    ------
    ResourceError
        Names the parts, the available memory, the keys to lower, and the number of machines.
    """
    total, available = sum(needed.values()), bytes_available_to_run(needed)
    if total > available:
        parts = ", ".join(f"{name} {size / MIB:,.0f} MiB" for name, size in needed.items())
        raise ResourceError(
            f"the run needs {total / MIB:,.0f} MiB ({parts}), but only {available / MIB:,.0f} MiB are "
            "available; reduce dataset.limit_users or dataset.users, model.dim, protocol.wakes or "
            "protocol.rounds, the number of observers or of their momenta, or observers.reference_items, or "
            f"set executor.storage to float16; {count_machines(needed, available)}"
        )


def bytes_available_to_run(needed: dict[str, int]) -> int:
    """Return the bytes available to a run: free memory, and what this process already holds of its libraries.

    Parameters
    ----------
    needed : dict of str to int
        Bytes by part. Memory that the process holds counts only for these parts.
    """
    of_process = sum(size for part, size in needed.items() if part in PARTS)
    return available_bytes() + min(resident_bytes(), of_process)


def event_bytes(n_wakes: int, n_messages: int) -> int:
    """Return the bytes of events that are known ahead."""
    return OF_A_WAKE * n_wakes + OF_A_MESSAGE * n_messages


def check_event_memory(n_wakes: int, messages: int) -> None:
    """Refuse a run of which the events, which are known ahead, do not fit into memory.

    Parameters
    ----------
    n_wakes : int
        Wakes of all nodes together.
    messages : int
        The smallest number of messages per wake.

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


def memory_inputs(components: RunComponents, *, n_wakes: int, n_messages: int) -> MemoryInputs:
    """Return the memory inputs of a prepared run."""
    rules = [receiver.rule for receiver in components.inboxes.receivers.values()]
    server = components.coordination.server
    return MemoryInputs(
        scenario=components.scenario,
        protocol=components.protocol,
        mode=components.mode,
        training=components.training,
        layout=components.layout,
        n_interactions=components.split.n_interactions,
        samples=components.feed.n_samples(components.training.negatives),
        waiting=components.inboxes.capacity,
        n_rewritten=_rewritten_rows(components),
        stacks_updates=any(map(stacks_updates, rules)),
        n_versions=1 if server is None else server.n_versions,
        n_wakes=n_wakes,
        n_messages=n_messages,
    )


def _rewritten_rows(components: RunComponents) -> int:
    """Return the rows of the latest rewritten messages, and of what nodes and poisoners remember of their pushes."""
    outgoing, most = components.outgoing, components.protocol.max_messages_per_wake or 1
    more = (most - 1) * outgoing.nodes_with("per_receiver") + outgoing.nodes_with("keeps_memory")
    kept = sum(len(entry.nodes) * entry.memory_numbers for entry in components.attackers)
    return int((outgoing.writes_rows * (1 + more)).sum()) + kept // components.layout.row_size


def stacks_updates(rule: Aggregator) -> bool:
    """Return whether an aggregator stacks waiting updates."""
    return rule.uses_deltas and rule.is_robust


def process_bytes(extent: MemoryInputs, executor: str) -> dict[str, int]:
    """Return the bytes that a process takes for any run of a kind, by part.

    The parts are the interpreter, each library, compiled kernels, stacks of models, and loading: memory that is freed
    after loading the data stays with the process.

    Parameters
    ----------
    extent : MemoryInputs
    executor : str
        Name of the executor that trains.
    """
    scenario, of_nodes = extent.scenario, extent.mode.nodes_hold_models
    imported = {module.partition(".")[0] for module in late_imports(scenario)}
    if reads_files(scenario) and "sklearn" not in imported:
        imported.add("pyarrow")
    sizes = {"python": PYTHON} | {name: size for name, size in OF_A_MODULE.items() if name in imported}
    if executor != "fused":
        sizes["torch"] = TORCH[executor] + WORKING[executor]
    elif not of_nodes:
        sizes["torch"] = TORCH["clients"]  # kernels are loaded in addition; kernels of clients are small
    else:
        sizes["kernels"] = KERNELS
        if not has_compiled_kernels():
            sizes["compiling"] = COMPILING
        attacks = [ATTACKS[choice.name] for choice in (*scenario.adversaries, *scenario.observers)]
        kernels = MODELS[scenario.model.name].kernels()
        scores = kernels is not None and kernels.scores
        if (
            not scores
            or scenario.attackers
            or any(getattr(attack, "uses_torch", False) for attack in attacks)
        ):
            sizes["torch"] = TORCH["reference"]
    needed = {part: size * MIB for part, size in sizes.items()}
    if executor == "batched" and of_nodes:
        needed["training"] = _of_stack(extent)
    return {**needed, LOADING: _of_loading(extent, needed)}


def _of_loading(extent: MemoryInputs, needed: dict[str, int]) -> int:
    """Return the bytes that loading the data takes in addition to what the run takes later in their place."""
    small = drawing_bytes(min(extent.n_interactions, SMALL_DRAWS))
    drawing = drawing_bytes(extent.n_interactions)
    if drawing == small:
        return small
    held = needed | estimate_memory(extent).bytes
    before = sum(held.get(part, 0) for part in ("python", *OF_A_MODULE))
    return max(small, drawing - (sum(held.values()) - before))


def estimate_memory(extent: MemoryInputs) -> StoreMemory:
    """Return the memory of data, events, model versions, inboxes, servers and optimizer state."""
    common = {"data": _of_data(extent), "events": event_bytes(extent.n_wakes, extent.n_messages)}
    own = extent.mode.memory(extent)
    return StoreMemory(common | own.bytes, own.rows)


def _of_stack(extent: MemoryInputs) -> int:
    """Return the bytes of the models that are trained together, and of the items that their sequences draw."""
    layout, scenario, n_nodes = extent.layout, extent.scenario, extent.protocol.n_nodes
    at_once = max(1, min(STACK_BYTES["cpu"] // (4 * layout.row_size), n_nodes))
    longest = getattr(scenario.model.options, "max_length", 0)  # of sequence models
    length = min(longest, -(-extent.n_interactions // n_nodes))
    drawn = length * scenario.training.negatives * layout.item_width
    return COPIES_PER_STEP * 4 * at_once * (layout.row_size + drawn)


def _of_data(extent: MemoryInputs) -> int:
    """Return the bytes of a split and a feed: interactions by part and in order of time, and bits of pairs."""
    n_users = extent.protocol.n_users
    return 2 * 4 * extent.n_interactions + n_users * member_width(n_users, extent.layout.n_items)
