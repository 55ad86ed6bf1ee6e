"""A walk over all that plug-in code can reach from what it is given, and what of the run is among it.

The walk follows attributes, slots, containers, array bases, buffers, closures, default arguments, method owners,
wrapped and partial functions, and weak references. It does not follow modules, classes, globals of functions, frames,
and the garbage collector: Python cannot keep code from these.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from gossiprec import isolation
from gossiprec.arrays import I64
from gossiprec.compute.plan.program import Program
from gossiprec.emulation import Prepared, prepare
from gossiprec.emulation.run.metering import Metered
from gossiprec.scenario import load_scenario

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type, types.ModuleType, np.generic, np.dtype)
Path = str


def reachable(root: Any, name: str) -> Iterator[tuple[Path, Any]]:
    """Yield each object that can be reached from an object, with the way to it.

    Parameters
    ----------
    root : object
    name : str
        Of the object, where ways begin.
    """
    known, waiting = {id(root): root}, deque([(name, root)])
    while waiting:
        way, thing = waiting.popleft()
        yield way, thing
        for step, part in _parts(thing):
            if not isinstance(part, _PLAIN) and id(part) not in known:
                known[id(part)] = part
                waiting.append((way + step, part))


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, with the step to it."""
    if isinstance(thing, np.ndarray):
        yield ".base", thing.base
        if thing.dtype == object:
            yield from ((f"[{place}]", each) for place, each in enumerate(thing.ravel().tolist()))
        return
    if isinstance(thing, memoryview):
        yield ".obj", thing.obj
        return
    if isinstance(thing, Mapping):
        yield from ((f"[{key!r}]", each) for key, each in list(thing.items()))
    elif isinstance(thing, list | tuple | set | frozenset | deque):
        yield from ((f"[{place}]", each) for place, each in enumerate(list(thing)))
    if isinstance(thing, weakref.ref):
        yield "()", thing()
    if isinstance(thing, functools.partial):
        yield from ((".func", thing.func), (".args", thing.args), (".keywords", thing.keywords))
    for name in ("__self__", "__func__", "__wrapped__", "__defaults__", "__kwdefaults__", "_base"):
        yield f".{name}", getattr(thing, name, None)
    for place, cell in enumerate(getattr(thing, "__closure__", None) or ()):
        yield f".__closure__[{place}]", _content(cell)
    yield from ((f".{name}", part) for name, part in list(getattr(thing, "__dict__", {}).items()))
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield f".{name}", getattr(thing, name, None)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _arrays(root: Any, name: str) -> list[tuple[Path, np.ndarray[Any, Any]]]:
    return [
        (way, thing) for way, thing in reachable(root, name) if isinstance(thing, np.ndarray) and thing.size
    ]


class Watch:
    """The data of a run, and the ways by which plug-in code has reached them.

    Attributes
    ----------
    found : dict of str to str
        A way that plug-in code could take, and what it leads to.
    calls : int
        How often plug-in code was called.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.found: dict[str, str] = {}
        self.calls = 0
        run = {
            "training items": prepared.split.train,
            "data": prepared.split,
            "feed": prepared.feed,
            "models": prepared.executor.store,
            "deliveries": prepared.deliveries,
            "meetings": prepared.schedule.meetings,
        }
        self._objects = {
            id(thing): name
            for name, thing in {**run, "executor": prepared.executor, "planner": prepared.planner}.items()
        }
        self._arrays = [(name, array) for name, thing in run.items() for _, array in _own_arrays(thing, name)]

    def protect(self, name: str, *things: Any) -> None:
        """Count more data among those of the run."""
        self._arrays += [(name, array) for thing in things for _, array in _own_arrays(thing, name)]

    def look(self, name: str, thing: Any) -> None:
        """Note what of the run can be reached from something that plug-in code is given."""
        self.calls += 1
        for way, each in reachable(thing, name):
            if id(each) in self._objects:
                self.found.setdefault(way, self._objects[id(each)])
            elif isinstance(each, np.ndarray) and each.size:
                for what, array in self._arrays:
                    if np.may_share_memory(each, array):
                        self.found.setdefault(way, what)
                        break


def _own_arrays(thing: Any, name: str) -> list[tuple[Path, np.ndarray[Any, Any]]]:
    """Return the arrays that an object of a run holds; models' constants are public."""
    return [
        (way, array)
        for way, array in _arrays(thing, name)
        if ".model." not in way and ".constants" not in way and "._threads" not in way
    ]


@contextmanager
def looked_at(kind: type, method: str, watch: Watch) -> Iterator[None]:
    """Look at all that a method of a class is given, and at its object, until the body ends."""
    original: Callable[..., Any] = getattr(kind, method)

    @functools.wraps(original)
    def spy(self: Any, *given: Any, **named: Any) -> Any:
        watch.look("self", self)
        for place, each in enumerate(given):
            watch.look(original.__code__.co_varnames[1 + place], each)
        for name, each in named.items():
            watch.look(name, each)
        return original(self, *given, **named)

    with patch.object(kind, method, spy):
        yield


@contextmanager
def foreign(*kinds: type) -> Iterator[None]:
    """Take some classes for classes from outside gossiprec until the body ends."""
    known = isolation._is_ours

    with patch.object(isolation, "_is_ours", lambda kind: kind not in kinds and known(kind)):
        yield


@contextmanager
def ours(*kinds: type) -> Iterator[None]:
    """Take some classes for gossiprec's own, which share arrays with the run, until the body ends."""
    known = isolation._is_ours

    with patch.object(isolation, "_is_ours", lambda kind: kind in kinds or known(kind)):
        yield


def refuse_reach(run: Mapping[str, Any], kind: type, method: str) -> None:
    """Play a run, and raise if code of a class can reach data of the run from what its method is given.

    Parameters
    ----------
    run : mapping
        A scenario that uses the class.
    kind : type
    method : str

    Raises
    ------
    AssertionError
        With the ways.
    ScenarioError
        If the run refuses the class.
    """
    with foreign(kind):
        prepared = prepare(load_scenario({**run, "executor": {"name": "reference", "threads": 1}}))
        watch = Watch(prepared)
        with looked_at(kind, method, watch), _programs_protected(watch):
            for _ in prepared.schedule.play(prepared.tape_runner().carry_out):
                pass
    assert watch.calls, f"{method} was never called, so nothing was checked."
    ways = "; ".join(f"{way} leads to the run's {what}" for way, what in list(watch.found.items())[:6])
    assert not watch.found, f"{method} can reach what is not its own: {ways}."


@contextmanager
def _programs_protected(watch: Watch) -> Iterator[None]:
    """Count the programs and rows that attacks are shown among the data of the run."""
    observe = Metered.observe

    def protecting(self: Metered, rows: Any, program: Program, tasks: I64) -> None:
        watch.protect("plan", program)
        watch.protect("models", rows)
        observe(self, rows, program, tasks)

    with patch.object(Metered, "observe", protecting):
        yield
