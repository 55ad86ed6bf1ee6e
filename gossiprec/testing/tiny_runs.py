"""Tools of contract checks: tiny runs, and reports of every claim that does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.registry import Registry
from gossiprec.emulation import PreparedRun, prepare
from gossiprec.scenario import load_scenario

Subject = TypeVar("Subject")


def check_claims(about: str, subject: Subject, claims: Iterable[Callable[[Subject], None]]) -> None:
    """Check claims: functions that raise if their claim does not hold; its text is their docstring's first line.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    broken: list[str] = []
    first: Exception | None = None
    for claim in claims:
        try:
            claim(subject)
        except Exception as error:  # any error of a plug-in means that the claim does not hold
            first = first or error
            found = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            broken.append(f"- {(claim.__doc__ or claim.__name__).splitlines()[0]} {found}".rstrip())
    if broken:
        raise AssertionError("\n".join([f"{about} breaks its contract:", *broken])) from first


T = TypeVar("T")

UNNAMED = "checked"
"""Temporary name of a checked thing that is not registered."""

CITY = {
    "name": "synthetic-checkins", "users": 8, "items": 30, "checkins": 160, "communities": 2,
    "split": {"name": "leave_last_k", "test": 1, "validation": 2},
}  # fmt: skip
"""Data with places and times, for models that need them."""

GOSSIP = {"name": "rand-gossip", "fanout": 2, "view": {"size": 2}, "wakes": 5}
PERSONAL = {"name": "pers-gossip", "view": {"size": 2}, "wakes": 4}
FEDERATED = {"name": "fedavg", "rounds": 4}
UPDATES = {**FEDERATED, "client_model": "none"}
CENTRAL = {"name": "central", "epochs": 3}
PROTOCOLS = {"gossip": GOSSIP, "personal": PERSONAL, "federated": FEDERATED}

WITHHELD = {"name": "share-less", "nodes": [0, 3, 4], "tau": 0.5}
"""A policy under which some nodes withhold their user row, some observers among them."""


def tiny_scenario(**sections: Any) -> dict[str, Any]:
    """Return a run of seconds as plain data; whole sections can be replaced."""
    return {
        "name": "contract",
        "seed": 3,
        "plots": False,
        "dataset": CITY,
        "model": {"name": "gmf"},
        "training": {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": 32},
        "protocol": GOSSIP,
        "evaluate": {"every": 2, "metrics": ["hr@5"]},
        **sections,
    }


def run_to_end(run: Mapping[str, Any], **executor: Any) -> tuple[PreparedRun, F64]:
    """Return a finished run, and its initial models."""
    prepared = prepare(load_scenario({**run, "executor": executor}))
    first = current_models(prepared)
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    return prepared, first


def current_models(prepared: PreparedRun) -> F64:
    """Return the present models of all nodes."""
    store = prepared.executor.store
    return store.load(prepared.planner.current)[:, : store.layout.size].astype(np.float64)


@contextmanager
def temporarily_registered(registry: Registry[T], members: Mapping[str, T]) -> Iterator[None]:
    """Register some things until the body ends."""
    for name, member in members.items():
        registry.register(name)(member)
    try:
        yield
    finally:
        for name in members:
            del registry._members[name]


@contextmanager
def registered_as(registry: Registry[T], member: T) -> Iterator[str]:
    """Register a thing until the body ends, unless it is registered; yield its name."""
    names = [name for name, known in registry._members.items() if known is member]
    with temporarily_registered(registry, {} if names else {UNNAMED: member}):
        yield (names or [UNNAMED])[0]
