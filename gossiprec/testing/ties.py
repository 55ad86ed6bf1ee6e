"""Contract of attacks under ties: ties give no attack more than guessing finds."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors import EXECUTORS
from gossiprec.emulation import simulate
from gossiprec.runs import Run
from gossiprec.testing.tiny_runs import FEDERATED, PROTOCOLS, tiny_scenario

N_USERS, N_OWN = 12, 8
TRAINING = {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": 32}
IDLE = {**TRAINING, "learning_rate": 1e-30}
RUNS = {**PROTOCOLS, "updates": {**FEDERATED, "client_model": "none"}}
ROUNDING = 1e-9


def check_ties(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    model: Mapping[str, Any] | None = None,
    knows_nothing: Mapping[str, Any] | None = None,
) -> None:
    """Run a registered attack on data full of ties: it must find what guessing finds, whatever the ids.

    No two users have an item in common, so that all others are equally near to a user. Any guess at K of ``N - 1``
    others finds ``K / (N - 1)`` of a community, and fewer guesses find less. Every protocol that the attack accepts
    is run, the first by all executors.

    Parameters
    ----------
    name : str
        The name under which it is registered.
    options : mapping, optional
        Options as in a scenario. There are twelve users, each with eight items of its own, of which five are trained
        on.
    model : mapping, optional
        The section `model` of the scenario; GMF if it is left out.
    knows_nothing : mapping, optional
        The section `model` with which untrained models give all items equal scores. The attack is then
        also run without training on users in overlapping groups, so that everything it has seen ties.

    Raises
    ------
    AssertionError
        If an adversary finds more than a guess does, or less although it has met all users; or if nothing was ranked
        in any run, so that nothing was checked.
    """
    worlds = [(model or {"name": "gmf"}, TRAINING, False)]
    if knows_nothing is not None:
        worlds.append((knows_nothing, IDLE, True))
    found, refused = 0, []
    for section, training, overlap in worlds:
        for place, (world, protocol) in enumerate(RUNS.items()):
            for executor in EXECUTORS if place == 0 else ("fused",):
                run: dict[str, Any] = {"model": section, "training": training, "protocol": protocol}
                run |= {"observers": [{"name": name, **(options or {})}], "executor": {"name": executor}}
                try:
                    found += _check(run, overlap, f"the attack {name} ({world}, {executor})")
                except ScenarioError as error:
                    refused.append(f"{world}, {executor}: {error}")
    assert found, "\n".join([f"the attack {name} ranked nobody in any run, so nothing was checked", *refused])


def _check(sections: Mapping[str, Any], overlap: bool, where: str) -> int:
    """Raise if an adversary finds more than guessing does; return the number of adversaries checked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sets.csv")
        path.write_text(
            "user,item\n" + "".join(f"u{user:02d},i{item:03d}\n" for user, item in _pairs(overlap))
        )
        split = {"name": "leave_last_k", "test": 1, "validation": 2}
        dataset = {"name": "file", "path": str(path), "split": split}
        run = simulate(tiny_scenario(**sections, dataset=dataset), out=Path(folder, "run"))
        return _judged(run, where, ranked_alike=overlap)


def _judged(run: Run, where: str, *, ranked_alike: bool) -> int:
    n_checked = 0
    for attack in (run.summary or {})["attacks"]:
        size = attack["community_size"]
        guessing = size / (N_USERS - 1)
        key = [key for key in run.adversaries if key.endswith(f"/k{size}")]
        accuracies = np.concatenate([run.adversaries[k][1] for k in key])
        if not ranked_alike:
            assert accuracies.max() <= guessing + ROUNDING, (
                f"{where} finds {accuracies.max():.3f} of a community where all users are equally near, and a guess "
                f"finds {guessing:.3f}; ties must be credited with their expectation, not with the order of ids"
            )
        if attack["upper_bound"] >= 1 - ROUNDING:
            assert abs(attack["last_aac"] - guessing) < ROUNDING, (
                f"{where} finds {attack['last_aac']:.3f} of the communities although all that it has seen ties; a "
                f"guess finds {guessing:.3f}"
            )
        n_checked += len(accuracies)
    return n_checked


def _pairs(overlap: bool) -> list[tuple[int, int]]:
    """Return pairs of users and items: disjoint sets of items, or groups of users by id with mostly shared items."""
    if not overlap:
        return [(user, N_OWN * user + item) for user in range(N_USERS) for item in range(N_OWN)]
    return [
        (user, 30 * (user // 4) + 2 * (user % 4) + item) for user in range(N_USERS) for item in range(N_OWN)
    ]
