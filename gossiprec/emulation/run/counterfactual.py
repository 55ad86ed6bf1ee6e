"""Counterfactual runs: a run's scenario without the data of some users."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from gossiprec.base.errors import DataError, LogError, did_you_mean
from gossiprec.base.registry import combined_code_version
from gossiprec.emulation.assembly.data_loading import changed_since
from gossiprec.emulation.run.execution import SimulateKeywords
from gossiprec.emulation.run.simulate import OnExists, simulate
from gossiprec.runs import Run, open_run, run_files
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.registries import scenario_code_version

MAX_NAMED = 4
"""Number of users above which the name of the default run directory has a hash in place of their node ids."""


def counterfactual(
    path: str | os.PathLike[str],
    without: Sequence[int | str],
    *,
    out: str | os.PathLike[str] | None = None,
    **options: Unpack[SimulateKeywords],
) -> Run:
    """Run the scenario of a complete run without the data of some users, and return the run.

    It is the run of the same scenario with ``dataset.without``: the nodes of these users stay in the network and relay
    models, but have no data. An equal run that exists already in the default directory is returned as it is.

    Parameters
    ----------
    path : path
        The directory of the factual run.
    without : sequence of int or str
        Users, at least one: a number is a node id, a text is a name in the data.
    out : path, optional
        New directory for the counterfactual run; next to the factual one if not given.
    **options
        As in :func:`gossiprec.simulate`.

    Raises
    ------
    DataError
        If a user does not exist or has no data in the run, or no user with data would be left.
    LogError
        If the run is not complete, belongs to another version of the code, or its data have changed.
    GossipRecError
        As in :func:`gossiprec.simulate`.
    """
    run = open_run(path)
    scenario = comparable_scenario(run)
    changed, ids = without_users(run, scenario, without)
    target = Path(out) if out is not None else counterfactual_path(run.path, ids)
    on_exists: OnExists = "reuse" if out is None else "refuse"
    return simulate(changed, out=target, on_exists=on_exists, **options)


def without_users(run: Run, scenario: Scenario, users: Sequence[int | str]) -> tuple[Scenario, list[int]]:
    """Return the scenario of a run without the data of some more users, and the node ids of these.

    Raises
    ------
    DataError
        If no user is named, a user does not exist or has no data in the run, or no user would be left.
    """
    ids, known = find_users(run, users), set(find_users(run, scenario.dataset.without))
    if not ids:
        raise DataError(f"{run.path}: found no user to leave out; expected at least one; name a user")
    for user, node in zip(users, ids, strict=True):
        if node in known:
            raise DataError(f"{run.path}: user {user} has no data in it (dataset.without); name another user")
    dataset = scenario.dataset.model_copy(update={"without": (*scenario.dataset.without, *users)})
    return scenario.with_(dataset=dataset), ids


def comparable_scenario(run: Run) -> Scenario:
    """Return the scenario of a run that this code would repeat with the same bytes.

    Raises
    ------
    LogError
        If the run is not complete, was changed from Python, belongs to another version of the code, or its data have
        changed.
    """
    if run.status != "complete":
        raise LogError(
            f"{run.path}: found a run with status {run.status}; expected a complete run; finish it first: "
            f"gossiprec resume {run.path}"
        )
    scenario, again = (
        load_scenario(run.path / run_files.SCENARIO),
        f"gossiprec simulate {run.path}/scenario.yaml",
    )
    if run.manifest.get("changes"):
        raise LogError(
            f"{run.path}: was changed from Python while it ran; expected a run of its scenario; move the changes to "
            "the scenario's section `changes` and run that"
        )
    code = combined_code_version(run.manifest.get("plugins", {}), run.manifest.get("code"))
    if code != scenario_code_version(scenario):
        raise LogError(
            f"{run.path}: found a run of other code ({code}); expected this code ({scenario_code_version(scenario)}), "
            f"or both differ by more than the user; run it again: {again}"
        )
    changed = changed_since(scenario, run.manifest)
    if changed:
        raise LogError(
            f"{run.path}: its data differ from now: {changed}; restore them, or run it again: {again}"
        )
    return scenario


def find_users(run: Run, users: Sequence[int | str]) -> list[int]:
    """Return the node ids of users of a run.

    Raises
    ------
    DataError
        If a user does not exist.
    """
    names, n_users = [*map(str, run.users.get("name", ()))], (run.summary or {})["nodes"]
    found = []
    for user in users:
        if isinstance(user, int) and not 0 <= user < n_users:
            raise DataError(f"{run.path}: found user {user}; expected a node id from 0 to {n_users - 1}")
        if isinstance(user, str) and user not in names:
            known = "a name in users.csv" if names else "a node id as a number: its users have no names"
            raise DataError(
                f"{run.path}: found no user named {user!r}; expected {known}{did_you_mean(user, names)}"
            )
        found.append(user if isinstance(user, int) else names.index(user))
    if len(set(found)) == n_users:
        raise DataError(
            f"{run.path}: found all {n_users} users; expected to keep at least one of them; name fewer"
        )
    return found


def counterfactual_path(path: Path, ids: Sequence[int]) -> Path:
    """Return the default directory of the run without some users, given their node ids."""
    names = [str(node) for node in sorted(set(ids))]
    if len(names) > MAX_NAMED:
        names = [str(len(names)), "users", hashlib.sha256("-".join(names).encode()).hexdigest()[:8]]
    path = path.resolve()
    return path.with_name("-".join([path.name, "without", *names]))
