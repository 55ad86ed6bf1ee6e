"""The check of a checkpoint's state before it is restored: the arrays that compiled loops read and index.

Compiled loops index without bounds. Whoever adds an array to a state that such a loop uses as an index adds its range
here. Nothing else is checked: forged numbers that are no indices give wrong results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.compute.plan import program as at
from gossiprec.runs.checkpoint_state import PartialArray


def check_indices(state: Mapping[str, Any], fresh: Mapping[str, Any], n_items: int) -> None:
    """Refuse arrays of another type or shape than this run has, and indices that are out of range.

    Parameters
    ----------
    state : mapping
        From a checkpoint.
    fresh : mapping
        The state of the same run before it began.
    n_items : int
        Number of items in an update.

    Raises
    ------
    ValueError
        Naming the array, what was found, and what was expected.
    """
    for part in ("planner", "carrier", "arena", "attacks"):
        # the arena holds the versions in use, which may be fewer
        _check_arrays(part, state[part], fresh[part], shrinks=part == "arena")
    n_nodes = len(state["planner"]["nodes"])
    ranges = [*_planner_ranges(state["planner"], fresh["planner"]), *_observer_ranges(state["attacks"])]
    ranges.append(("carrier.sender", state["carrier"]["sender"], 0, n_nodes - 1))
    if "items" in state["arena"]:
        ranges += _update_ranges(state["arena"], n_items)
    for name, found, low, high in ranges:
        if found.size and not (found.min() >= low and found.max() <= high):
            raise ValueError(f"{name}: found {found.min()} to {found.max()}; expected {low} to {high}")


Ranges = Iterator[tuple[str, npt.NDArray[Any], int, int]]
"""Names of arrays, the arrays, and their smallest and largest possible values."""


def _check_arrays(path: str, found: Any, fresh: Any, *, shrinks: bool) -> None:
    """Refuse arrays of another type or other dimensions, and shorter ones unless the part `shrinks`."""
    if isinstance(fresh, PartialArray):
        fresh = fresh.array
    if isinstance(fresh, Mapping) and isinstance(found, Mapping):
        for name in fresh.keys() & found.keys():
            _check_arrays(f"{path}.{name}", found[name], fresh[name], shrinks=shrinks)
    elif isinstance(fresh, list | tuple) and isinstance(found, list | tuple):
        for place, pair in enumerate(zip(found, fresh, strict=False)):
            _check_arrays(f"{path}[{place}]", *pair, shrinks=shrinks)
    elif isinstance(fresh, np.ndarray):
        own = (fresh.dtype, fresh.ndim, fresh.shape[1:])
        is_same = isinstance(found, np.ndarray) and (found.dtype, found.ndim, found.shape[1:]) == own
        if not is_same or (found.shape[:1] < fresh.shape[:1] and not shrinks):
            raise ValueError(f"{path}: found {_describe(found)}; expected {_describe(fresh)}")


def _describe(value: Any) -> str:
    is_array = isinstance(value, np.ndarray)
    return f"{value.dtype} of shape {value.shape}" if is_array else type(value).__name__


def _planner_ranges(state: Mapping[str, Any], fresh: Mapping[str, Any]) -> Ranges:
    nodes, rows, messages, counters = (state[name] for name in ("nodes", "rows", "messages", "counters"))
    scenario = [at.ROLE, at.LIMIT, at.INBOX, at.REWRITES]
    if not np.array_equal(nodes[:, scenario], fresh["nodes"][:, scenario]):
        raise ValueError("planner.nodes: found other roles or limits; expected those of this scenario")
    last_row, free = len(rows) - 1, len(state["free"])
    n_messages = min(len(state[name]) for name in ("messages", "keeps", "pools_seen"))
    yield "planner.nodes: rows", nodes[:, at.CURRENT], 0, last_row
    yield "planner.nodes: kept rows", nodes[:, [at.HELD, at.BASE]], at.NONE, last_row
    yield "planner.nodes: messages", nodes[:, [at.HEAD, at.TAIL, at.PUSHED]], at.NONE, n_messages - 1
    yield "planner.nodes: pushes", nodes[:, at.PUSHES], 0, n_messages
    yield "planner.versions", state["versions"], 0, last_row
    yield "planner.free", state["free"], 0, last_row
    yield "planner.messages: senders", messages[:, at.SENDER], 0, len(nodes) - 1
    yield "planner.messages: rows", messages[:, at.CARRIED], at.NONE, last_row
    yield "planner.messages: lists", messages[:, at.NEXT], at.NONE, n_messages - 1
    yield "planner.messages: pushes", messages[:, at.PUSH], 0, max(n_messages - 1, 0)
    yield "planner.counters: first free row", counters[[at.FREE_HEAD]], 0, free - 1
    yield "planner.counters: free rows", counters[[at.FREE_COUNT]], 0, free
    yield "planner.counters: messages", counters[[at.QUEUED, at.COLLECTED]], 0, n_messages
    yield "planner.counters: used rows", counters[[at.FRESH]], int(fresh["counters"][at.FRESH]), len(rows)


def _update_ranges(state: Mapping[str, Any], n_items: int) -> Ranges:
    """Yield the ranges of updates; each has a row for each of its items."""
    n, n_rows, touched = len(state["items"]), len(state["rows"]), state["touched"]
    if not touched.sum() == n == n_rows:
        raise ValueError(f"arena.touched: found {touched.sum()} items and {n_rows} rows; expected {n}")
    yield "arena.touched", touched, 0, n_items
    yield "arena.items", state["items"], 0, n_items - 1


def _observer_ranges(attacks: list[Any]) -> Ranges:
    for number, observers in enumerate(attack.get("observers", {}) for attack in attacks):
        if "slot_at" in observers:
            slots = observers["slot_at"]
            yield f"attacks[{number}].slot_at", slots, -1, slots.shape[1] - 1
        for pool, shared in enumerate(observers.get("shared_of", ())):
            n_hosts = observers["latest"][pool].shape[2]
            if len(shared) not in (0, n_hosts):
                raise ValueError(f"attacks[{number}].shared_of: found {len(shared)} rows; expected {n_hosts}")
