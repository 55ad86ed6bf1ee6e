"""The epsilon of each victim towards each observer of a run with DP-SGD, from the run's log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import qr

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.registry import registry_name
from gossiprec.compute.local_update import NodeSettings
from gossiprec.compute.plan.tape import MERGING, Op
from gossiprec.defences import compute_epsilons, sampled_mean_epsilon
from gossiprec.defences.dp_sgd import DPSGD
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.assembly.schedule import build_and_schedule, planned_settings
from gossiprec.emulation.progress import NullProgress, Progress, Stopwatch
from gossiprec.emulation.run.contact_replay import (
    FAR,
    LinearReplay,
    MergeRules,
    count_numbers,
    replay_linear,
    replay_reach,
    replay_rounds,
)
from gossiprec.emulation.run.influence import comparable_scenario, find_users
from gossiprec.models.base.parameter_blocks import BlockRole
from gossiprec.runs import Run, open_run
from gossiprec.runs.run_files import EPSILON
from gossiprec.runs.run_tables import epsilon_bytes, write_arrays
from gossiprec.scenario import Scenario
from gossiprec.scenario.network import Churn

MOST_UPDATES = 2000
"""Most local updates of a run for the linear bound: a view of n updates takes time in proportion to n^3."""
MOST_NUMBERS = 2**26
"""Most numbers of its replay."""


@dataclass(frozen=True)
class NodeNoise:
    """The noise of each node's local updates.

    Attributes
    ----------
    multiplier : ndarray of float64, shape (n_nodes,)
        Deviation of the noise in units of the largest change that the unit of protection makes; 0 without noise.
    deviation : ndarray of float64, shape (n_nodes,)
        Deviation of the noise of a sum of gradients, or of a local update.
    delta : ndarray of float64, shape (n_nodes,)
    epochs : ndarray of int64, shape (n_nodes,)
        Gaussian mechanisms per local update.
    by_user : ndarray of bool, shape (n_nodes,)
        Whether the unit of protection is all data of a user.
    """

    multiplier: F64
    deviation: F64
    delta: F64
    epochs: I64
    by_user: Bools

    @classmethod
    def of(cls, components: RunComponents, settings: NodeSettings) -> NodeNoise:
        """Return the noise that the policies of a run have set."""
        by_user, delta = settings.update_clip > 0, np.full(components.protocol.n_nodes, np.nan)
        multiplier = np.where(by_user, settings.update_noise, settings.noise_multiplier).astype(np.float64)
        clip = np.where(by_user, settings.update_clip, settings.clip_norm)
        for policy in components.policies:
            if isinstance(policy, DPSGD):
                delta[policy.nodes] = policy.options.delta
        epochs = np.where(by_user, 1, components.training.local_epochs)
        return cls(multiplier, multiplier * clip, delta, epochs, by_user)


@dataclass(frozen=True)
class NetworkEpsilon:
    """The privacy of victims towards observers.

    Attributes
    ----------
    victims : ndarray of int64, shape (n,)
    observers : ndarray of int64, shape (m,)
        Node ids; -1, -2 and so on for coalitions.
    members : tuple of ndarray of int64, length m
        The nodes of each observer.
    hops : ndarray of float64, shape (n, m)
        Fewest messages in a row by which an update of the victim can have come; infinite if none can.
    epsilon : ndarray of float64, shape (n, m)
        The smaller one of both bounds; infinite without noise, 0 if nothing can have come; NaN of a node itself and of
        a member towards its coalition.
    reach : ndarray of float64, shape (n, m)
        Epsilon of the updates that can have come.
    linear : ndarray of float64, shape (n, m), or None
        Epsilon by the linear view, or None if it does not cover the run.
    sampled : ndarray of float64, shape (n, m), or None
        Epsilon towards other clients of a coordinator that keeps its uniform samples secret, over these samples; not
        part of `epsilon`, because the log shows who took part. None if :func:`sampled_epsilons` does not cover the run.
    local : ndarray of float64, shape (n,)
        Epsilon towards an observer of everything.
    delta : float
        The largest of the victims.
    reason : str or None
        The reason why there is no linear bound.
    """

    victims: I64
    observers: I64
    members: tuple[I64, ...]
    hops: F64
    epsilon: F64
    reach: F64
    linear: F64 | None
    sampled: F64 | None
    local: F64
    delta: float
    reason: str | None

    def table(self) -> list[dict[str, float]]:
        """Return means and largest values by number of hops, nearest first."""
        rows, known = [], ~np.isnan(self.epsilon)
        local = np.broadcast_to(self.local[:, None], self.epsilon.shape)
        for hops in np.unique(self.hops[known]).tolist():
            chosen = known & (self.hops == hops)
            extra = {
                f"{name}_mean": float(values[chosen].mean())
                for name, values in (("linear", self.linear), ("sampled", self.sampled))
                if values is not None
            }
            rows.append(
                {
                    "hops": hops,
                    "pairs": int(chosen.sum()),
                    "epsilon_max": float(self.epsilon[chosen].max()),
                    "epsilon_mean": float(self.epsilon[chosen].mean()),
                    "reach_mean": float(self.reach[chosen].mean()),
                    **extra,
                    "local_mean": float(local[chosen].mean()),
                }
            )
        return rows

    def arrays(self) -> dict[str, Any]:
        """Return all arrays by name."""
        found = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        offsets = np.cumsum([0, *map(len, self.members)])
        members = {"members": np.concatenate(self.members), "member_offsets": offsets}
        return {**found, **members, "delta": np.array(self.delta)}


def network_epsilon(
    path: str | os.PathLike[str],
    *,
    victims: Sequence[int | str] | None = None,
    observers: Sequence[int | Sequence[int]] | None = None,
    progress: Progress | None = None,
) -> NetworkEpsilon:
    """Return the epsilon of victims of a complete run towards others, and write it to ``epsilon.npz`` of the run.

    Parameters
    ----------
    path : path
        The directory of a run with the policy ``dp-sgd``.
    victims : sequence of int or str, optional
        Users: a number is a node id, a text is a name in the data. Default: all.
    observers : sequence of int, or of sequence of int, optional
        Node ids, also of a coordinator; a sequence of ids is a coalition, which knows all that its members know.
        Default: every node on its own.
    progress : Progress, optional
        Receives progress messages.

    Raises
    ------
    DataError
        If a user or a node does not exist.
    ScenarioError
        If no epsilon covers what the run sends.
    LogError
        If the run is not complete, belongs to another version of the code, or its data have changed.

    References
    ----------
    V. Feldman, T. Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021 (a divergence bounded on
    every path); for the linear bound see :func:`update_exposures`.
    """
    run = open_run(path)
    scenario = comparable_scenario(run)
    check_has_noise(run.path, scenario)
    progress = progress or NullProgress()
    components, schedule = build_and_schedule(scenario, load_data(scenario), progress, Stopwatch())
    _check_covered(run, components)
    n_users, n_nodes = components.split.n_users, components.protocol.n_nodes
    chosen = np.arange(n_users)
    if victims is not None:
        chosen = np.array([find_users(run, [victim])[0] for victim in victims], np.int64)
    groups = [
        np.unique(np.array(own, np.int64)) for own in (range(n_nodes) if observers is None else observers)
    ]
    _check_observers(run.path, groups, n_nodes)
    noise = NodeNoise.of(components, planned_settings(components, schedule))
    found = _account(run, components, noise, (chosen, groups), progress)
    write_arrays(run.path / EPSILON, found.arrays(), epsilon_bytes(run.summary))
    return found


def _check_observers(path: Path, groups: Sequence[I64], n_nodes: int) -> None:
    """Refuse nodes that do not exist, and coalitions without members.

    Raises
    ------
    DataError
    """
    for own in groups:
        unknown = own[(own < 0) | (own >= n_nodes)]
        if len(unknown):
            raise DataError(
                f"{path}: found observer {unknown[0]}; expected a node id from 0 to {n_nodes - 1}"
            )
        if not len(own):
            raise DataError(f"{path}: found a coalition of no nodes; expected at least one; name its nodes")


def _account(
    run: Run,
    components: RunComponents,
    noise: NodeNoise,
    pairs: tuple[I64, Sequence[I64]],
    progress: Progress,
) -> NetworkEpsilon:
    """Return the epsilons of some victims towards some observers."""
    chosen, groups = pairs
    n_users, n_nodes = components.split.n_users, components.protocol.n_nodes
    progress.phase("replaying messages")
    reach = replay_reach(run, n_users, n_nodes)
    exposure = np.stack([reach.updates[np.ix_(chosen, own)].max(axis=1) for own in groups], axis=1).astype(
        float
    )
    updates = run.events("update")
    totals = np.bincount(updates["node"][updates["samples"] > 0], minlength=n_nodes)[chosen].astype(
        np.float64
    )
    linear, reason = None, linear_gap(run, components, noise)
    if reason is None:
        progress.phase("computing views")
        views = round_exposures(run, components, noise, groups)
        if views is None:
            reason = size_gap(run)
            views = None if reason else linear_exposures(run, components, noise, groups)
        linear = None if views is None else np.minimum(views[chosen], exposure)
    hops = np.stack([reach.hops[np.ix_(chosen, own)].min(axis=1) for own in groups], axis=1).astype(
        np.float64
    )
    hops[hops == FAR] = np.inf
    own = np.stack([np.isin(chosen, members) for members in groups], axis=1)

    def epsilons(updates: F64) -> F64:
        return np.where(own, np.nan, _epsilons(noise, chosen, updates))

    sampled = None if linear is None else sampled_epsilons(run, components, noise)
    by_reach = epsilons(exposure)
    by_view = None if linear is None else epsilons(linear)
    ids = np.array([members[0] if len(members) == 1 else -1 for members in groups], np.int64)
    alone, ids[ids < 0] = ids >= 0, -1 - np.arange(np.count_nonzero(ids < 0))
    return NetworkEpsilon(
        chosen, ids, tuple(groups), hops, by_reach if by_view is None else by_view, by_reach, by_view,
        None if sampled is None else np.where(own | ~alone, np.nan, sampled[ids]),
        _epsilons(noise, chosen, totals[:, None])[:, 0], float(np.nanmax(noise.delta[chosen], initial=0.0)), reason,
    )  # fmt: skip


def _epsilons(noise: NodeNoise, users: I64, updates: F64) -> F64:
    """Return the epsilon of each user for (fractional) numbers of its updates, shape (n, m)."""
    found = np.zeros(updates.shape)
    for row, user in enumerate(users.tolist()):
        if noise.multiplier[user] == 0:
            found[row] = np.where(updates[row] > 0, np.inf, 0.0)
            continue
        epochs = updates[row] * noise.epochs[user]
        sigma = np.full(len(epochs), noise.multiplier[user])
        found[row] = compute_epsilons(sigma, epochs, float(noise.delta[user]))
    return found


def check_has_noise(path: Path, scenario: Scenario) -> None:
    """Refuse a run in which no node has noise in training.

    Raises
    ------
    ScenarioError
    """
    if not any(isinstance(policy.options, DPSGD.Options) for policy in scenario.policies):
        raise ScenarioError(
            f"{path}: policies: found no dp-sgd; expected a run with noise in training; add "
            "{name: dp-sgd, epsilon: 10} to policies and run it again"
        )


def _check_covered(run: Run, components: RunComponents) -> None:
    """Refuse a run in which data leave nodes without noise.

    Raises
    ------
    ScenarioError
    """
    if components.protocol.choices_follow_data:
        raise ScenarioError(
            f"{run.path}: protocol.name: found {registry_name(components.protocol)}, which chooses receivers by items "
            "without noise, so no epsilon covers a message; use rand-gossip or fedavg"
        )
    if not components.mode.nodes_hold_models:
        raise ScenarioError(
            f"{run.path}: protocol: found a run of mode {components.mode.title}; expected nodes with models, of which "
            "dp-sgd hides the training; use rand-gossip, or fedavg with client_model: own"
        )


def linear_gap(run: Run, components: RunComponents, noise: NodeNoise) -> str | None:
    """Return the reason why the messages of a run are not linear in its noise, or None if they are."""
    scenario, protocol, training = components.scenario, components.protocol, components.training
    name = registry_name(protocol)
    options = protocol.options
    by_sample = (noise.multiplier > 0) & ~noise.by_user
    steps = training.optimizer != "sgd" or training.batch_size is not None or training.local_epochs != 1
    gaps = {
        f"the protocol {name} is not rand-gossip or fedavg": name not in ("rand-gossip", "fedavg"),
        "models are merged by a rule other than a mean, or a server": bool(components.receivers),
        "the coordinator chooses clients by their data, waits for them or weighs them": name == "fedavg"
        and (options.choose != "uniform" or options.round is not None or not options.aggregation.plain
             or options.aggregation.name != "synchronous"),
        "poisoners or adversaries take part": bool(scenario.attackers or scenario.adversaries),
        "a policy rewrites messages": any(
            registry_name(policy) not in ("dp-sgd", "share-less") for policy in components.policies
        ),
        "nodes go offline or computing takes time": scenario.churn != Churn() or scenario.network.compute is not None,
        "every node holds the rows of all users": protocol.whole_user_table,
        "models are stored in float16": scenario.executor.number_format != "float32",
        "training changes during the run": bool(scenario.changes),
        "the recommender adds terms and data": components.recommender is not None,
        "a local update is more than one step of sgd on a full batch (training: optimizer sgd, batch_size full, "
        "local_epochs 1), and the unit is not user": bool(steps and by_sample.any()),
    }  # fmt: skip
    return next((reason for reason, applies in gaps.items() if applies), None)


def size_gap(run: Run) -> str | None:
    """Return the reason why the views of a run cannot be computed, or None if they can."""
    n_updates = len(run.events("update")["time"])
    if n_updates > MOST_UPDATES:
        return f"it has {n_updates:,} local updates, more than {MOST_UPDATES:,}"
    return "its messages take too much memory" if count_numbers(run) > MOST_NUMBERS else None


def update_deviations(components: RunComponents, noise: NodeNoise, owner: I64, samples: I64) -> F64:
    """Return the deviation of the noise of local updates in the model, shape (n_updates,)."""
    rate = components.training.learning_rate / samples  # of a step on a sum of gradients
    return noise.deviation[owner] * np.where(noise.by_user[owner], 1.0, rate)


def round_exposures(
    run: Run, components: RunComponents, noise: NodeNoise, groups: Sequence[I64]
) -> F64 | None:
    """Return the exposure of each user to each group of nodes that share what they know, by rounds of a coordinator.

    None if the coordinator does not average fresh answers.

    A version is the version before it plus the mean of the noisy updates of one round. Versions are seen, or assumed to
    be, so a round shows its mean: the share of an update is that of its noise in the noise of the others, of which no
    member of the group is one. A group with the coordinator sees single updates.

    Returns
    -------
    ndarray of float64, shape (n_users, n_groups), or None
    """
    n = components.split.n_users
    replayed = replay_rounds(run, n) if components.protocol.n_nodes == n + 1 else None
    if replayed is None:
        return None
    rounds, seen = replayed
    samples, weights = run.events("update")["samples"].astype(np.int64), components.merge_weights
    is_member = np.stack([np.isin(np.arange(n), own) for own in groups], axis=1)
    coordinates = np.array([n in own for own in groups])
    versions = np.array([np.append(seen, 0)[own].max() for own in groups])
    found, count = np.zeros(is_member.shape), np.zeros(is_member.shape)
    for number, (clients, updates) in enumerate(rounds):
        users = np.array(clients, np.int64)
        power = np.zeros(n)
        power[users] = (
            weights[users] * update_deviations(components, noise, users, samples[np.array(updates, np.int64)])
        ) ** 2
        others = np.where(coordinates, 0.0, power.sum() - power @ is_member)
        share = np.divide(
            power[:, None],
            others,
            out=np.ones(is_member.shape),
            where=(others > power[:, None]) & (power[:, None] > 0),
        )
        shown = np.zeros(is_member.shape)
        shown[users] = coordinates | (number < versions)
        hidden = np.where(
            noise.by_user[:n, None], found + share, count + share
        )  # other updates show all of theirs
        found = np.where(shown > 0, hidden, found)
        count += shown
    return found


def linear_exposures(run: Run, components: RunComponents, noise: NodeNoise, groups: Sequence[I64]) -> F64:
    """Return the exposure of each user to each group of nodes that share what they know, by its linear view.

    Returns
    -------
    ndarray of float64, shape (n_users, n_groups)
    """
    replay = replay_linear(run, merge_rules(components))
    scale = update_deviations(components, noise, replay.owner, replay.samples)
    has_own = bool(components.layout.users.stop or len(components.layout.blocks_of_role(BlockRole.PRIVATE)))
    shows_own = ~components.outgoing.withholds_role(BlockRole.USER) & bool(components.layout.users.stop)
    found = np.zeros((components.split.n_users, len(groups)))
    for column, members in enumerate(groups):
        rows, seen = observer_view(replay, members)
        rows = rows * np.where(np.isin(replay.owner, members), 0.0, scale)
        exposures = np.where(scale > 0, update_exposures(rows, replay.owner), seen)
        shown = _shown_updates(replay, members, shows_own)
        if has_own:
            between = (
                seen & ~noise.by_user[replay.owner]
            )  # a sample also changes later gradients by the hidden row
            np.maximum.at(shown, replay.owner[between], replay.order[between])
        exposures = np.where(
            seen & (replay.order < shown[replay.owner]), np.maximum(exposures, 1.0), exposures
        )
        users = replay.owner < len(found)
        np.add.at(found[:, column], replay.owner[users], exposures[users])
    return found


def merge_rules(components: RunComponents) -> MergeRules:
    """Return the operations and weights by which the nodes of a run merge."""
    behaviours, roles = components.protocol.role_behaviours, components.protocol.roles
    merging = [next(iter(MERGING & behaviour.on_any_receive), Op.NOTHING) for behaviour in behaviours]
    return MergeRules([merging[role] for role in roles.tolist()], components.merge_weights)


def observer_view(replay: LinearReplay, members: I64) -> tuple[F64, Bools]:
    """Return the view of an observer, of messages and the models before updates in them, and the updates in it.

    Parameters
    ----------
    replay : LinearReplay
    members : ndarray of int64
        The nodes of the observer.

    Returns
    -------
    view : ndarray of float64, shape (n_rows, n_updates)
        Equal rows are there once.
    seen : ndarray of bool, shape (n_updates,)
    """
    heard = [replay.pushes[push] for member in members.tolist() for push in replay.deliveries[member]]
    rows = {row.tobytes(): row for row in heard}
    others = ~np.isin(replay.owner, members)
    seen, known = np.zeros(len(replay.owner), bool), np.zeros(int(replay.owner.max(initial=-1)) + 1, np.int64)
    for row in rows.values():
        seen |= (row != 0) & others
    for update in range(len(seen) - 1, -1, -1):
        owner = replay.owner[update]
        if seen[update]:
            known[owner] = max(known[owner], replay.order[update] + 1)
        if others[update] and replay.order[update] < known[owner]:
            row = replay.before[update]
            if row.any():
                rows.setdefault(row.tobytes(), row)
                seen |= (row != 0) & others
    view = np.array(list(rows.values())).reshape(len(rows), len(seen))
    return view, seen


def _shown_updates(replay: LinearReplay, members: I64, shows_own: Bools) -> I64:
    """Return the number of each node's first updates in the user rows that it has sent to an observer."""
    shown = np.zeros(len(shows_own), np.int64)
    for push in (push for member in members.tolist() for push in replay.deliveries[member]):
        sender = replay.sender[push]
        if shows_own[sender]:
            shown[sender] = max(shown[sender], replay.sent_updates[push])
    return shown


def sampled_epsilons(run: Run, components: RunComponents, noise: NodeNoise) -> F64 | None:
    """Return the epsilon of any user towards each node if samples of clients are secret, shape (n_nodes,).

    None if samples are not uniform, or users and their updates are not hidden by the same noise. Also None if clients
    keep a state between rounds, a user row or moments: it would link a round with the secret samples of earlier ones.
    NaN for the coordinator, which knows its samples.
    """
    options, n, layout = components.protocol.options, components.split.n_users, components.layout
    keeps_state = layout.users.stop or layout.blocks_of_role(BlockRole.PRIVATE)
    if keeps_state or components.training.optimizer != "sgd":
        return None
    is_fedavg = registry_name(components.protocol) == "fedavg"
    if not is_fedavg or options.pause or options.slice or options.ask != "all":
        return None
    deviations = noise.deviation[:n] * components.merge_weights[:n]
    replayed = replay_rounds(run, n) if noise.by_user[:n].all() and (deviations > 0).all() else None
    if replayed is None or np.ptp(deviations) or np.ptp(noise.multiplier[:n]):
        return None
    rounds, seen = replayed
    sizes = np.unique([len(clients) for clients, _ in rounds[: int(seen.max())]])
    if len(sizes) != 1 or not 2 <= sizes[0] < n:
        return None
    found = np.full(n + 1, np.nan)
    for count in np.unique(seen).tolist():
        found[:n][seen == count] = sampled_mean_epsilon(
            float(noise.multiplier[0]),
            count,
            float(noise.delta[:n].min()),
            others=n - 1,
            sample=int(sizes[0]),
        )
    return found


def view_basis(view: F64) -> F64:
    """Return an orthonormal basis of the rows of a view, shape (n_updates, rank).

    Rows that differ by more than rounding count as different: an observer has exact numbers.

    Parameters
    ----------
    view : ndarray of float64, shape (n_messages, n_updates)
    """
    norms = np.linalg.norm(view, axis=1)
    rows = view[norms > 0] / norms[norms > 0, None]
    if not len(rows):
        return np.zeros((view.shape[1], 0))
    basis, triangle, _ = qr(rows.T, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    rank = np.count_nonzero(sizes > sizes[0] * max(rows.shape) * np.finfo(np.float64).eps)
    return np.asarray(basis[:, :rank], np.float64)


def update_exposures(view: F64, owner: I64) -> F64:
    """Return the exposure of each update in a view, shape (n_updates,); a user's exposure is at most their sum.

    It is the sum of the absolute entries of the projection over updates of the same user: ``x' P x`` is at most the sum
    of these over the updates, for moves x of norm 1 in any directions. For a single update it is exact.

    Parameters
    ----------
    view : ndarray of float64, shape (n_messages, n_updates)
    owner : ndarray of int64, shape (n_updates,)
        The user of each update.
    """
    basis = view_basis(view)
    found: F64 = np.einsum("ij,ij->i", basis, basis)
    for user in np.flatnonzero(np.bincount(owner) > 1).tolist():
        own = np.flatnonzero(owner == user)
        found[own] = np.abs(basis[own] @ basis[own].T).sum(axis=1)
    return found


def averaging_view(mixing: F64, seen: Bools, rounds: int) -> F64:
    """Return the view of synchronous gossip averaging, in which all nodes add noise once, before the first round.

    Parameters
    ----------
    mixing : ndarray of float64, shape (n, n)
        W: a round replaces the models x by ``W x``.
    seen : ndarray of bool, shape (n,)
        The nodes of which the models are seen before each round.
    rounds : int

    Returns
    -------
    ndarray of float64, shape (rounds * n_seen, n)
    """
    state, rows = np.eye(len(mixing)), []
    for _ in range(rounds):
        rows.append(state[seen])
        state = mixing @ state
    return np.concatenate(rows)


def message_exposures(view: F64) -> F64:
    """Return Muffliato's exposure of each node: the sum of ``V_mu^2 / ||V_m||^2`` over the messages m, shape (n,).

    Notes
    -----
    The sum treats messages as independent mechanisms. They carry the same noise, so that together they reveal more: on
    a ring, the difference of two messages shows a single node. It is not a bound of what is seen, and ``gossiprec
    epsilon`` does not use it.

    References
    ----------
    Muffliato, theorem 1, with the rows of ``W^t`` as messages.
    """
    return np.asarray((view**2 / (view**2).sum(axis=1, keepdims=True)).sum(axis=0))


def ring_mixing(n: int) -> F64:
    """Return the mixing matrix of a ring of n nodes, each with the weight 1/3 for itself and each neighbour."""
    near = np.eye(n)
    return (near + np.roll(near, 1, axis=1) + np.roll(near, -1, axis=1)) / 3


def ring_muffliato_exposure(n: int, distance: int, rounds: int) -> float:
    """Return Muffliato's exposure towards a node `distance` hops away on a ring, by the eigenvalues of the ring."""
    waves = 2 * np.pi * np.arange(n) / n
    eigenvalues, total = (1 + 2 * np.cos(waves)) / 3, 0.0
    for t in range(rounds):
        powers = eigenvalues**t
        norm = (powers**2).mean()
        for hops in (distance - 1, distance + 1):
            total += (powers * np.cos(waves * hops)).mean() ** 2 / norm
    return float(total)


def complete_muffliato_exposure(n: int, rounds: int) -> float:
    """Return Muffliato's exposure on a complete graph: every message but the first of each node is the mean."""
    return 1.0 + (rounds - 1) * (n - 1) / n


def mean_exposure(n_others: int, rounds: int) -> float:
    """Return the exposure if only the mean of `n_others` fresh noisy updates is seen per round: ``rounds / n_others``.

    This is the growth with the number of rounds of secure summation on a complete graph, and of the other clients of a
    coordinator; the observer knows and removes its own update.

    References
    ----------
    arXiv 2505.19969, secure summation.
    """
    return rounds / n_others


def walk_exposures(gaps: I64) -> F64:
    """Return the exposure of each visit of a random walk that reaches the observer `gaps` noisy steps later: 1 / gap.

    References
    ----------
    Cyffers, Bellet, Upadhyay 2024: the noise of all steps between two nodes hides the first of them.
    """
    return 1.0 / np.asarray(gaps, np.float64)


def expected_walk_exposures(mixing: F64, steps: int) -> F64:
    """Return a bound of the expected exposure of one visit of a random walk, from each node (row) to each other one.

    It is ``sum_t (W^t)_uv / t`` over the steps t, as if the observer hid the visit only by the noise since then. A walk
    visits each node every n steps on average, so T steps expose a node by T / n times as much.

    Parameters
    ----------
    mixing : ndarray of float64, shape (n, n)
        W, the probabilities of the next node: symmetric, of a connected graph.
    steps : int
        Steps that follow the visit.

    Returns
    -------
    ndarray of float64, shape (n, n)

    Raises
    ------
    ValueError
        If the matrix is not symmetric and stochastic, or nodes cannot reach one another.

    Notes
    -----
    The closed form is ``H / n - log(I - W + J)``, with the harmonic number H of `steps`, the logarithm of a matrix, and
    J of entries 1 / n. The paper writes ``ln T`` for H. Both are limits: powers of W beyond `steps` are taken as J, so
    use it for steps above the mixing time. The expectation over first visits only is smaller.

    References
    ----------
    Cyffers, Bellet, Upadhyay 2024, privacy loss between pairs of nodes (arXiv 2402.07471).
    """
    n = len(mixing)
    if not np.allclose(mixing, mixing.T) or not np.allclose(mixing.sum(axis=1), 1.0) or (mixing < 0).any():
        raise ValueError("found a matrix that is not symmetric with rows of sum 1; expected probabilities")
    lengths, axes = np.linalg.eigh(np.eye(n) - mixing + 1.0 / n)
    if lengths[0] < n * np.finfo(np.float64).eps:
        raise ValueError("found nodes that cannot reach one another; expected a connected graph")
    harmonic = (1.0 / np.arange(1, steps + 1)).sum()
    return np.asarray(harmonic / n - (axes * np.log(lengths)) @ axes.T, np.float64)
