"""Checks of what cannot give the same bytes on every processor (``executor.portable``): whatever torch computes.

torch's square roots begin with an approximation that is each processor's own and is not brought to the last bit; no
setting of torch or of the library under it (MKL) changes that.
"""

from __future__ import annotations

from collections.abc import Iterator

from gossiprec.registry import Registry
from gossiprec.scenario.model import Scenario
from gossiprec.scenario.problems import KeyPath, Problems

WHY = (
    "executor.portable requires compiled kernels, because the last digits of torch's results depend on the "
    "processor"
)


def check_portable(
    scenario: Scenario, problems: Problems, *, holds_all_data: bool, attacks: Registry[type]
) -> None:
    """Note what a scenario asks for that torch computes, if it is to be portable.

    Parameters
    ----------
    scenario : Scenario
    problems : Problems
    holds_all_data : bool
        Whether a coordinator trains alone, with torch.
    attacks : Registry
        Tells which attacks are torch's.
    """
    if scenario.executor.portable:
        for path, found in _by_torch(scenario, attacks, holds_all_data=holds_all_data):
            problems.add(path, f"{found}; {WHY}")


def _by_torch(
    scenario: Scenario, attacks: Registry[type], *, holds_all_data: bool
) -> Iterator[tuple[KeyPath, str]]:
    executor = scenario.executor
    if executor.name not in ("auto", "fused"):
        yield ("executor", "name"), f"found {executor.name!r}, must be fused or auto"
    if executor.device == "cuda":
        yield ("executor", "device"), "found 'cuda', must be cpu or auto"
    if holds_all_data:
        yield (
            ("protocol", "name"),
            (f"found {scenario.protocol.name!r}, in which the coordinator trains with torch"),
        )
    if scenario.recommender is not None:
        name = scenario.recommender.name
        yield ("recommender", "name"), f"found {name!r}, but recommenders compute with torch; remove it"
    if scenario.attackers:
        yield ("attackers",), "poisoners compute with torch; remove them"
    for index, observer in enumerate(scenario.observers):
        if getattr(attacks[observer.name], "by_torch", False):
            yield (
                ("observers", index, "name"),
                f"found {observer.name!r}, which computes with torch; remove it",
            )
