"""The epsilon of each victim towards each observer of a run with DP-SGD, from the run's tape."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import qr

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import DataError
from gossiprec.base.registry import registry_name
from gossiprec.defences import compute_epsilons, sampled_mean_epsilon
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.schedule import planned_settings
from gossiprec.emulation.progress import NullProgress, Progress
from gossiprec.emulation.run.contact_replay import (
    FAR,
    ContactTape,
    LinearReplay,
    replay_linear,
    replay_reach,
    replay_rounds,
)
from gossiprec.emulation.run.derived_run import derive, from_contacts
from gossiprec.emulation.run.epsilon_coverage import (
    NEIGHBOURS,
    NodeNoise,
    check_covered,
    check_has_noise,
    check_weights,
    linear_gap,
    size_gap,
)
from gossiprec.emulation.run.influence import find_users
from gossiprec.models.base.parameter_blocks import BlockRole
from gossiprec.runs import open_run
from gossiprec.runs.run_files import EPSILON
from gossiprec.runs.run_tables import epsilon_bytes, write_arrays


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
    neighbours : str
        The relation of data sets that every epsilon is about.
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
    neighbours: str = NEIGHBOURS

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
        If no epsilon covers the messages of the run.
    LogError
        If the run is not complete, belongs to another version of the code, or its data have changed.

    References
    ----------
    V. Feldman, T. Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021 (a divergence bounded on
    every path); for the linear bound see :func:`update_exposures`.
    """
    run = open_run(path)
    progress = progress or NullProgress()
    components, schedule = derive(run, functools.partial(check_has_noise, run.path), from_contacts(progress))
    tape = ContactTape.of(run, components.protocol, check_covered(run.path, components, schedule))
    check_weights(run.path, components, tape)
    n_users, n_nodes = components.split.n_users, components.protocol.n_nodes
    chosen = np.arange(n_users)
    if victims is not None:
        chosen = np.array([find_users(run, [victim])[0] for victim in victims], np.int64)
    everyone = range(n_nodes) if observers is None else observers
    groups = [np.unique(np.array(own, np.int64)) for own in everyone]
    _check_observers(run.path, groups, n_nodes)
    noise = NodeNoise.of(components, planned_settings(components, schedule))
    found = _account(tape, components, noise, (chosen, groups), progress)
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
    tape: ContactTape,
    components: RunComponents,
    noise: NodeNoise,
    pairs: tuple[I64, Sequence[I64]],
    progress: Progress,
) -> NetworkEpsilon:
    """Return the epsilons of some victims towards some observers."""
    chosen, groups = pairs
    progress.phase("replaying messages")
    roots = root_users(components)
    noise = noise.without(roots)
    reach = replay_reach(tape, components.split.n_users, roots)
    places = [np.ix_(chosen, own) for own in groups]
    exposure = np.stack([reach.updates[at].max(axis=1) for at in places], axis=1).astype(float)
    totals = np.array([np.count_nonzero(tape.samples[user]) for user in chosen.tolist()], np.float64)
    totals[np.isin(chosen, roots)] += 1  # the coordinator has their data
    linear, reason = None, linear_gap(components, noise)
    if reason is None:
        progress.phase("computing views")
        views = round_exposures(tape, components, noise, groups)
        if views is None:
            reason = size_gap(tape)
            views = None if reason else linear_exposures(tape, components, noise, groups)
        linear = None if views is None else np.minimum(views[chosen], exposure)
    hops = np.stack([reach.hops[at].min(axis=1) for at in places], axis=1).astype(np.float64)
    hops[hops == FAR] = np.inf
    own = np.stack([np.isin(chosen, members) for members in groups], axis=1)

    def epsilons(updates: F64) -> F64:
        return np.where(own, np.nan, _epsilons(noise, chosen, updates))

    sampled = None if linear is None else sampled_epsilons(tape, components, noise)
    by_reach = epsilons(exposure)
    # a message without an update in it still has a merge weight, which follows from whether its sender has data
    by_view = None if linear is None else np.where((found := epsilons(linear)) > 0, found, by_reach)
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


def root_users(components: RunComponents) -> I64:
    """Return the users of whom the coordinator has the data, ascending (rules and servers with root data)."""
    known = [users for _, users in components.choose_root_users()]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *known]))


def update_deviations(components: RunComponents, noise: NodeNoise, owner: I64, samples: I64) -> F64:
    """Return the deviation of the noise of local updates in the model, shape (n_updates,)."""
    rate = components.training.learning_rate / samples  # of a step on a sum of gradients
    return noise.deviation[owner] * np.where(noise.by_user[owner], 1.0, rate)


def round_exposures(
    tape: ContactTape, components: RunComponents, noise: NodeNoise, groups: Sequence[I64]
) -> F64 | None:
    """Return the exposure of each user to each group of nodes that share what they know, by rounds of a coordinator.

    None if the coordinator does not average fresh answers of different clients.

    A version is the version before it plus the mean of the noisy updates of one round. Versions are seen, or assumed to
    be, so a round shows its mean: the share of an update is that of its noise in the noise of the others, of which no
    member of the group is one. A group with the coordinator sees single updates. An answer of a client that does not
    train any more adds no noise, and shows nothing.

    Returns
    -------
    ndarray of float64, shape (n_users, n_groups), or None
    """
    n = components.split.n_users
    replayed = replay_rounds(tape, n) if components.protocol.n_nodes == n + 1 else None
    if replayed is None:
        return None
    rounds, seen = replayed
    weights = components.merge_weights
    is_member = np.stack([np.isin(np.arange(n), own) for own in groups], axis=1)
    coordinates = np.array([n in own for own in groups])
    versions = np.array([np.append(seen, 0)[own].max() for own in groups])
    found, count = np.zeros(is_member.shape), np.zeros(is_member.shape)
    for number, (clients, samples) in enumerate(rounds):
        counts = np.array(samples, np.int64)
        users, counts = np.array(clients, np.int64)[counts > 0], counts[counts > 0]
        power = np.zeros(n)
        power[users] = (weights[users] * update_deviations(components, noise, users, counts)) ** 2
        others, own = np.where(coordinates, 0.0, power.sum() - power @ is_member), power[:, None]
        is_hidden = (others > own) & (own > 0)
        share = np.divide(own, others, out=np.ones(is_member.shape), where=is_hidden)
        shown = np.zeros(is_member.shape)
        shown[users] = coordinates | (number < versions)
        # updates without noise by user show all of theirs
        hidden = np.where(noise.by_user[:n, None], found + share, count + share)
        found = np.where(shown > 0, hidden, found)
        count += shown
    return found


def linear_exposures(
    tape: ContactTape, components: RunComponents, noise: NodeNoise, groups: Sequence[I64]
) -> F64:
    """Return the exposure of each user to each group of nodes that share what they know, by its linear view.

    Returns
    -------
    ndarray of float64, shape (n_users, n_groups)
    """
    replay = replay_linear(tape, components.merge_weights)
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
            # a sample also changes later gradients by the hidden row
            between = seen & ~noise.by_user[replay.owner]
            np.maximum.at(shown, replay.owner[between], replay.order[between])
        is_shown = seen & (replay.order < shown[replay.owner])
        exposures = np.where(is_shown, np.maximum(exposures, 1.0), exposures)
        users = replay.owner < len(found)
        np.add.at(found[:, column], replay.owner[users], exposures[users])
    return found


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


def sampled_epsilons(tape: ContactTape, components: RunComponents, noise: NodeNoise) -> F64 | None:
    """Return the epsilon of any user towards each node if samples of clients are secret, shape (n_nodes,).

    None if samples are not uniform, or not all answers are updates with the same noise. Also None if clients
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
    replayed = replay_rounds(tape, n) if noise.by_user[:n].all() and (deviations > 0).all() else None
    if replayed is None or np.ptp(deviations) or np.ptp(noise.multiplier[:n]):
        return None
    rounds, seen = replayed
    sizes = np.unique([len(clients) for clients, _ in rounds[: int(seen.max())]])
    untrained = any(0 in samples for _, samples in rounds[: int(seen.max())])
    if untrained or len(sizes) != 1 or not 2 <= sizes[0] < n:
        return None
    found = np.full(n + 1, np.nan)
    multiplier, delta = float(noise.multiplier[0]), float(noise.delta[:n].min())
    for count in np.unique(seen).tolist():
        epsilon = sampled_mean_epsilon(multiplier, count, delta, others=n - 1, sample=int(sizes[0]))
        found[:n][seen == count] = epsilon
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
