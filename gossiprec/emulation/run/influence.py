"""Counterfactual runs without the data of some users, and what these data changed for the others: influence."""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Protocol, Unpack

import numpy as np

from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.errors import DataError, LogError, ScenarioError, did_you_mean
from gossiprec.compute.store.received_versions import ReceivedVersions
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.progress import Progress
from gossiprec.emulation.run.derived_run import derive, repeatable_scenario, temporary_runs, without_observers
from gossiprec.emulation.run.hops import count_hops
from gossiprec.emulation.run.live_run import LiveRun
from gossiprec.emulation.run.run_options import SimulateKeywords
from gossiprec.emulation.run.run_replay import check_same, log_difference
from gossiprec.emulation.run.simulate import OnExists, simulate
from gossiprec.measures.ranking import nanmean, top_items
from gossiprec.runs import Run, open_run
from gossiprec.scenario import Scenario

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
    on_exists: OnExists = "reuse" if out is None else "refuse"

    def run_without(scenario: Scenario) -> Run:
        target = out if out is not None else counterfactual_path(run.path, find_users(run, without))
        return simulate(scenario, out=target, on_exists=on_exists, **options)

    return derive(run, functools.partial(without_users, run, without), run_without)


def without_users(run: Run, users: Sequence[int | str], scenario: Scenario) -> Scenario:
    """Return the scenario of a run without the data of some more users.

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
    return scenario.with_(dataset=dataset)


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


BLOCK = 256
"""Number of users of whom all item scores are held."""


@dataclass(frozen=True)
class ModelDifferences:
    """The differences between the models of the same users in two runs.

    Attributes
    ----------
    users : ndarray of int64, shape (n,)
        Ascending.
    k : int
        Length of the compared lists.
    distance : ndarray of float64, shape (n,)
        Euclidean distance of the models.
    relative : ndarray of float64, shape (n,)
        Distance as a fraction of the norm of the first model.
    blocks : dict of str to ndarray of float64, shape (n,)
        Distance of each block of the models.
    overlap : ndarray of float64, shape (n,)
        Fraction of the first run's list that is also in the second run's.
    rank_change : ndarray of float64, shape (n,)
        Mean number of ranks by which an item of the first run's list moved.
    recall_change : ndarray of float64, shape (n,)
        recall@k of the second run minus that of the first; NaN for users without test items.
    recall : ndarray of float64, shape (n,)
        recall@k of the second run.
    """

    users: I64
    k: int
    distance: F64
    relative: F64
    blocks: dict[str, F64]
    overlap: F64
    rank_change: F64
    recall_change: F64
    recall: F64

    def columns(self) -> dict[str, F64]:
        """Return all measures by name; blocks are named ``distance[NAME]``."""
        return {
            "distance": self.distance,
            "relative": self.relative,
            **{f"distance[{name}]": found for name, found in self.blocks.items()},
            f"overlap@{self.k}": self.overlap,
            f"rank_change@{self.k}": self.rank_change,
            f"recall_change@{self.k}": self.recall_change,
        }


@dataclass(frozen=True)
class Influence(ModelDifferences):
    """The differences of other users' models and lists between a run and its counterfactual.

    Attributes
    ----------
    hops : ndarray of float64, shape (n,)
        Fewest messages in a row by which the data of a user left out can have reached each user
        (:mod:`gossiprec.emulation.run.hops`); infinite if they cannot, and the distance is then 0.
    """

    hops: F64

    def table(self) -> list[dict[str, float]]:
        """Return the means by number of hops, nearest first: `hops`, `users` and each measure."""
        rows = []
        for hops in np.unique(self.hops).tolist():
            chosen = self.hops == hops
            means = {name: nanmean(found[chosen]) for name, found in self.columns().items()}
            rows.append({"hops": hops, "users": int(chosen.sum()), **means})
        return rows


def influence(
    path: str | os.PathLike[str],
    counterfactual: str | os.PathLike[str],
    *,
    k: int = 20,
    progress: Progress | None = None,
) -> Influence:
    """Return the influence of the data that a counterfactual run leaves out on the other users, at the end of a run.

    Run directories hold no models, so both scenarios are run again, without observers, in a temporary directory. Each
    must give the log of its run again. A client without a model is compared by its own part and the version that it
    received last, or the first version if it received none.

    Parameters
    ----------
    path, counterfactual : path
        The directories of a run and of :func:`gossiprec.counterfactual`.
    k : int
        Length of the lists of recommendations.
    progress : Progress, optional
        Receives progress messages.

    Raises
    ------
    ScenarioError
        If the second run is no counterfactual of the first, or `k` is not from 1 to the number of items.
    LogError
        If a run cannot be repeated (:func:`gossiprec.counterfactual`) or gives another log, or the data have changed a
        model in a way that no hops count.
    GossipRecError
        As in :func:`gossiprec.simulate`.
    """
    runs = [open_run(path), open_run(counterfactual)]
    scenarios = [repeatable_scenario(run) for run in runs]
    removed = _removed(runs, scenarios)
    check_list_length(runs[0], k)

    def change(scenario: Scenario) -> Scenario:  # one executor, because others round differently
        return without_observers(scenario.with_(executor=scenarios[0].executor))

    with temporary_runs(progress) as start:
        first, second = (_repeat(run, derive(run, change, start)) for run in runs)
        found = compare_models(first, second, np.flatnonzero(second.prepared.components.split.train.sizes), k)
    hops = count_hops(runs, [first.prepared, second.prepared], removed)[found.users]
    changed = found.users[np.isinf(hops) & (found.distance != 0.0)]
    if len(changed):
        raise LogError(
            f"{runs[1].path}: found another model of user {changed[0]}, whom no message from the users left out "
            "reached; expected the same model; parts from Python must pass data of users on by messages only"
        )
    return Influence(**vars(found), hops=hops)


def _repeat(run: Run, again: LiveRun) -> LiveRun:
    """Finish the repetition of a run; clients without a model then have the versions that they received last.

    Raises
    ------
    LogError
        If it gives another log.
    """
    store = again.prepared.executor.store
    if isinstance(store, UpdateStore):
        store.received = received = ReceivedVersions(store)
    ended = again.finish()
    check_same(run, ended, log_difference(run, ended, True))
    if isinstance(store, UpdateStore):
        received.shown = True
    return again


def check_list_length(run: Run, k: int) -> None:
    """Refuse lists of k items that are longer than the catalogue, or empty.

    Raises
    ------
    ScenarioError
    """
    n_items = (run.summary or {})["items"]
    if not 1 <= k <= n_items:
        raise ScenarioError(
            f"k: found {k}; expected a length of lists from 1 to {n_items}, the number of items"
        )


def _removed(runs: Sequence[Run], scenarios: Sequence[Scenario]) -> list[int]:
    """Return the node ids of the users of whom only the first run has data."""
    plain: list[dict[str, Any]] = []
    for scenario in scenarios:
        own = scenario.resolved()
        own["dataset"].pop("without", None)
        differ = ("name", "executor", "checkpoint", "plots")
        plain.append({key: value for key, value in own.items() if key not in differ})
    pairs = zip(runs, scenarios, strict=True)
    before, after = (set(find_users(run, scenario.dataset.without)) for run, scenario in pairs)
    if plain[0] != plain[1] or not before < after:
        differs = next((key for key in plain[0] if plain[0][key] != plain[1].get(key)), "dataset.without")
        raise ScenarioError(
            f"{runs[1].path}: is not {runs[0].path} without the data of some users: they differ in {differs}; make it "
            f"with: gossiprec counterfactual {quote(str(runs[0].path))} --without USER"
        )
    return sorted(after - before)


class EndedModels(Protocol):
    """The models of all nodes at a report: a :class:`LiveRun`, or one like it."""

    @property
    def prepared(self) -> PreparedRun:
        """The parts of the run."""

    def model(self, node: int) -> dict[str, np.typing.NDArray[np.float32]]:
        """Return the model of a node by block."""

    def scores(self, users: I64) -> F32:
        """Return the scores of all items by the models of some users, shape (n_users, n_items)."""


def compare_models(first: EndedModels, second: EndedModels, users: I64, k: int) -> ModelDifferences:
    """Return the differences between the models and lists of some users in two runs of the same network.

    Parameters
    ----------
    first, second : EndedModels
    users : ndarray of int64, shape (n,)
        Users with data in both, ascending.
    k : int
    """
    distances: dict[str, list[float]] = {}
    norms: list[float] = []
    for user in users.tolist():
        before, after = first.model(user), second.model(user)
        for name, block in before.items():
            gap = after[name].astype(np.float64) - block
            distances.setdefault(name, []).append(float(np.linalg.norm(gap)))
        of_blocks = (float(np.linalg.norm(block.astype(np.float64))) for block in before.values())
        norms.append(math.hypot(*of_blocks))
    blocks = {name: np.array(found) for name, found in distances.items()}
    distance = np.sqrt(np.sum([found**2 for found in blocks.values()], axis=0))
    parts = (users[low : low + BLOCK] for low in range(0, len(users), BLOCK))
    lists = [_compare_lists(first, second, part, k) for part in parts]
    overlap, moved, change, recall = (np.concatenate(found) for found in zip(*lists, strict=True))
    norm = np.array(norms)
    relative = np.divide(distance, norm, out=np.full_like(norm, np.nan), where=norm > 0)
    return ModelDifferences(users, k, distance, relative, blocks, overlap, moved, change, recall)


def _compare_lists(first: EndedModels, second: EndedModels, users: I64, k: int) -> tuple[F64, F64, F64, F64]:
    """Return overlap, mean change of rank, change of recall, and second recall of the lists of some users."""
    data = first.prepared.components.split
    unseen = ~_members(data, users, *first.prepared.components.scenario.evaluate.mask.split("+"))
    tests = _members(data, users, "test") & unseen
    scores = [run.scores(users) for run in (first, second)]
    tops = [top_items(found, unseen, k) for found in scores]
    ranks = [_ranks(found, unseen) for found in scores]
    listed = [_mark(top, unseen.shape) for top in tops]
    length = listed[0].sum(axis=1)
    common = (listed[0] & listed[1]).sum(axis=1)
    moved = np.where(listed[0], np.abs(ranks[0] - ranks[1]), 0).sum(axis=1)
    n_tests = tests.sum(axis=1)
    with np.errstate(invalid="ignore"):
        recalls = [(found & tests).sum(axis=1) / n_tests for found in listed]
        return common / length, moved / length, recalls[1] - recalls[0], recalls[1]


def _members(data: Split, users: I64, *parts: str) -> Bools:
    """Return which items are in some parts of the users' data, shape (n_users, n_items)."""
    found = np.zeros((len(users), data.n_items), np.bool_)
    for row, user in zip(found, users.tolist(), strict=True):
        for part in parts:
            row[getattr(data, part)[user]] = True
    return found


def _ranks(scores: np.typing.NDArray[np.floating[Any]], candidates: Bools) -> I64:
    """Return the rank of each item among the candidates of its row; ties go to the lower id."""
    order = np.argsort(-np.where(candidates & ~np.isnan(scores), scores, -np.inf), axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(order.shape[1])[None, :], axis=1)
    return ranks


def _mark(top: np.typing.NDArray[np.integer[Any]], shape: tuple[int, ...]) -> Bools:
    found = np.zeros(shape, np.bool_)
    row, column = np.nonzero(top >= 0)
    found[row, top[row, column]] = True
    return found
