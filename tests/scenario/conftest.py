"""A small world of registered things, so that the layer is tested apart from the real ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, field_validator, model_validator

from gossiprec.base.options import NoOptions, Options, Problem
from gossiprec.base.registry import Registry
from gossiprec.scenario import Registries, Scenario, load_scenario


def registry(kind: str, members: dict[str, type[Options]]) -> Registry[Any]:
    """A registry of things that are nothing but their options; the package has no file of theirs."""
    made: Registry[Any] = Registry(kind, "gossiprec.scenario")
    for name, options in members.items():
        of_protocols = {
            "mode_of": lambda options: "whole-models",
            "users_meet": lambda options: True,
            "has_coordinator": False,
        }
        made.register(name)(type(name, (), {"Options": options, **of_protocols}))
    return made


class Synthetic(Options):
    users: int = Field(default=943, ge=2, description="Number of users.")
    items: int = Field(default=1682, ge=2)
    interactions: int = Field(default=100_000, ge=1)


class MovieLens(Options):
    path: str


class LeaveLastK(Options):
    test: int = 10
    validation: int = 0


class GMF(Options):
    dim: int = Field(default=8, ge=1)
    init_std: float = Field(default=0.01, gt=0)


class Clock(Options):
    law: Literal["exponential"]
    mean: float = Field(gt=0)
    redraw: bool = True


class EveryWakes(Options):
    every: int = Field(ge=1)


class RefreshClock(Options):
    law: Literal["exponential"]
    mean: float = Field(gt=0)


class View(Options):
    size: int = Field(default=3, ge=1)
    refresh: RefreshClock | EveryWakes = RefreshClock(law="exponential", mean=0.1)
    graph: str | None = None


class RandGossip(Options):
    fanout: int = Field(default=3, ge=1)
    train_on: Literal["wake", "receive"] = "wake"
    merge: Literal["samples", "mean"] = "samples"
    wake: Clock = Clock(law="exponential", mean=1.0)
    view: View = View()
    wakes: int = Field(default=500, ge=1)

    def check_scenario(self, scenario: Any) -> Iterator[Problem]:
        if self.fanout > self.view.size:
            found = (
                f"found {self.fanout}, but a view has {self.view.size} peers; lower fanout or raise view.size"
            )
            yield ("fanout",), found


class FedAvg(Options):
    rounds: int = Field(ge=1)
    participation: float = Field(default=1.0, gt=0, le=1)
    user_table: Literal["own", "averaged"] = "own"


Momentum = Annotated[float, Field(ge=0, lt=1)]


class Part(Options):
    fraction: float = Field(gt=0, le=1)


class CDA(Options):
    who: Literal["single", "coalition", "coordinator"]
    nodes: Literal["all"] | Part | tuple[int, ...] = "all"
    fraction: Momentum | tuple[Momentum, ...] | None = None
    members: tuple[int, ...] | None = None
    placement: str = "random"
    victim: int | tuple[int, ...] | None = None
    community_size: int | tuple[int, ...] = 50
    momentum: Momentum | tuple[Momentum, ...] = 0.99
    relevance: str | tuple[str, ...] = "ndcg"
    reference_items: int = Field(default=99, ge=1)

    @model_validator(mode="after")
    def _coalition_has_a_size(self) -> CDA:
        if self.who == "coalition" and self.fraction is None and self.members is None:
            raise ValueError("a coalition needs fraction or members")
        return self


class DPSGD(Options):
    epsilon: float = Field(gt=0)

    @field_validator("epsilon")
    @classmethod
    def _small(cls, value: float) -> float:
        if value > 1000:
            raise ValueError(f"found {value}: no privacy is left above 1000")
        return value


@pytest.fixture(scope="session")
def registries() -> Registries:
    return Registries(
        datasets=registry("data set", {"synthetic": Synthetic, "movielens-100k": MovieLens}),
        splits=registry("split", {"published": NoOptions, "leave_last_k": LeaveLastK}),
        models=registry("model", {"gmf": GMF, "ncf": NoOptions}),
        protocols=registry("protocol", {"rand-gossip": RandGossip, "fedavg": FedAvg}),
        attacks=registry("attack", {"cda": CDA}),
        policies=registry("policy", {"share-less": NoOptions, "dp-sgd": DPSGD}),
    )


MINIMAL = """\
name: tiny
dataset: {name: synthetic, split: {name: published}}
model: {name: gmf}
protocol:
  name: rand-gossip
  wakes: 5
"""


@pytest.fixture(scope="session")
def minimal() -> str:
    """The shortest scenario there is; the tests append the lines they are about (line 7 and on)."""
    return MINIMAL


class Loader:
    """Writes text to ``x.yaml`` and loads it with the fake things."""

    def __init__(self, folder: Path, registries: Registries) -> None:
        self.path = folder / "x.yaml"
        self.registries = registries

    def __call__(self, text: str, *overrides: str) -> Scenario:
        self.path.write_text(text, encoding="utf-8")
        return load_scenario(self.path, overrides, self.registries)


@pytest.fixture
def load(tmp_path: Path, registries: Registries, monkeypatch: pytest.MonkeyPatch) -> Loader:
    monkeypatch.chdir(tmp_path)
    return Loader(Path(), registries)
