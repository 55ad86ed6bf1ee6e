"""Tools of contract checks: tiny runs, the claims of a module, and reports of every claim that does not hold."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.registry import Registry
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.data.split import Split
from gossiprec.emulation import PreparedRun, prepare
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.models import MODELS, Layout, Model
from gossiprec.scenario import load_scenario

T = TypeVar("T")


def check_claims(about: str, module: str, **subject: Any) -> None:
    """Check the claims of a module about a subject: its public functions with this parameter and no other.

    Parameters
    ----------
    about : str
        What is checked, for the message.
    module : str
    **subject : object
        The subject, under the name that the parameter has. A claim raises if it does not hold; its text is the first
        line of its docstring.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    ((parameter, value),) = subject.items()
    broken: list[str] = []
    first: Exception | None = None
    for claim in _claims_about(parameter, module):
        try:
            claim(value)
        except Exception as error:  # any error of a plug-in means that the claim does not hold
            first = first or error
            found = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            broken.append(f"- {(claim.__doc__ or claim.__name__).splitlines()[0]} {found}".rstrip())
    if broken:
        raise AssertionError("\n".join([f"{about} breaks its contract:", *broken])) from first


def _claims_about(parameter: str, module: str) -> list[Callable[[Any], None]]:
    """Return the claims in the order of their definition."""
    claims: list[Callable[[Any], None]] = [
        function
        for name, function in vars(sys.modules[module]).items()
        if isinstance(function, FunctionType)
        and function.__module__ == module
        and name[0] != "_"
        and list(inspect.signature(function).parameters) == [parameter]
    ]
    assert claims, f"{module} has no claim about {parameter}"
    return claims


UNNAMED = "checked"
"""Temporary name of a checked thing that is not registered."""

CITY_USERS, CITY_ITEMS = 8, 30
CITY = {
    "name": "synthetic-checkins", "users": CITY_USERS, "items": CITY_ITEMS, "checkins": 160, "communities": 2,
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
    play_to_end(prepared)
    return prepared, first


def play_to_end(prepared: PreparedRun) -> None:
    """Play a prepared run to its end."""
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass


def current_models(prepared: PreparedRun) -> F64:
    """Return the present models of all nodes."""
    store = prepared.executor.store
    return store.load(prepared.planner.current_rows)[:, : store.layout.size].astype(np.float64)


def check_some_run_accepts(
    runs: Mapping[str, Mapping[str, Any]], play: Callable[[str, Mapping[str, Any]], None]
) -> None:
    """Play some runs by name, and raise if the scenario of every one of them is refused."""
    refused = []
    for name, run in runs.items():
        try:
            play(name, run)
        except ScenarioError as error:
            refused.append(f"{name}: {error}")
    assert len(refused) < len(runs), "\n".join(["All runs refuse it:", *refused])


def check_threads(runs: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise if all runs are refused, or if the models at the end of one are not finite or depend on threads."""

    def last_models(run: Mapping[str, Any], threads: int) -> F64:
        prepared, _ = run_to_end(run, threads=threads, wave_size=2 + threads)
        if isinstance(prepared.executor.store, UpdateStore):
            nodes = np.arange(prepared.components.protocol.n_nodes)
            return prepared.executor.store.models(prepared.planner.current_rows, nodes).astype(np.float64)
        return current_models(prepared)

    def play(name: str, run: Mapping[str, Any]) -> None:
        models = last_models(run, 1)
        assert np.isfinite(models).all(), f"The models of the run {name} are not finite."
        same = models.tobytes() == last_models(run, 2).tobytes()
        assert same, f"The number of threads changes the models of the run {name}."

    check_some_run_accepts(runs, play)


@dataclass(frozen=True)
class PluginCase:
    """A part under its registered name, with its options, and a run without it."""

    name: str
    kind: Any
    options: Mapping[str, Any]
    run: Mapping[str, Any]

    @cached_property
    def split(self) -> Split:
        """The run's data."""
        return load_data(load_scenario(self.run))

    @cached_property
    def model(self) -> Model:
        """The run's model, which knows the training data."""
        model = MODELS[self.run["model"]["name"]](load_scenario(self.run).model.options)
        return model.bind_to_data(self.split.training_data())

    @cached_property
    def layout(self) -> Layout:
        """The layout of the model's rows."""
        return self.model.layout(self.split.n_items)


@contextmanager
def attribute_tables(*, needed: bool) -> Iterator[dict[str, Any]]:
    """Yield options of a data set for tables of attributes of :data:`CITY`, which exist until the body ends."""
    if not needed:
        yield {}
        return
    users = [f"{n},{'fm'[n % 2]},{('writer', 'nurse', 'cook')[n % 3]},{20 + n}" for n in range(CITY_USERS)]
    items = [f"{n},{('drama', 'war|drama', 'comedy', 'war')[n % 4]}" for n in range(CITY_ITEMS)]
    with TemporaryDirectory() as folder:
        tables = {"user": ("gender,occupation,age", users), "item": ("genres", items)}
        for of, (columns, lines) in tables.items():
            text = "\n".join([f"{of},{columns}", *lines, ""])
            Path(folder, f"{of}s.csv").write_text(text, encoding="utf-8")
        yield {f"{of}_features": {"path": str(Path(folder, f"{of}s.csv"))} for of in tables}


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
