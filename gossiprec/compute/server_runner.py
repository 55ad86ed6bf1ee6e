"""The rounds of the coordinator's server: its versions of aggregated answers, and the version for each client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, I64, are_all_finite, check_array, check_range
from gossiprec.base.errors import ScenarioError
from gossiprec.base.isolation import is_foreign
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import philox_words
from gossiprec.compute.store.base import Store
from gossiprec.numerics.rounding import ENCODED
from gossiprec.rules.servers.base import ALONE, ClientAnswers, Downlink, RoundContext, Server


class ServerRunner:
    """The runner of a server, once per round; the first version becomes the coordinator's model.

    Parameters
    ----------
    server : Server
    coordinator : int
        Its node id; clients are the nodes before it.
    store : Store
    seed : int

    Attributes
    ----------
    rounds : int
        Rounds so far.
    version_of : ndarray of int64, shape (n_clients,)
        The version that each client is sent.
    extras : mapping of str to ndarray
        The extras of all clients.
    is_foreign : bool
        Whether some of the server's code is from outside gossiprec, so that it gets copies.
    """

    def __init__(self, server: Server, coordinator: int, store: Store, seed: int) -> None:
        self._server = server
        self._coordinator = coordinator
        self._store = store
        self._seed = seed
        self.is_foreign = any(is_foreign(part) for part in server.parts)
        self._rows: I64 = np.zeros(0, np.int64)
        self.rounds = 0
        self.version_of: I64 = np.zeros(coordinator, np.int64)
        self.extras: Mapping[str, npt.NDArray[Any]] = {}

    @property
    def n_versions(self) -> int:
        """Number of versions of a round."""
        return self._server.n_versions

    @property
    def groups(self) -> I64 | None:
        """The group of similar clients to which the server assigned each client, or None."""
        return self._server.groups

    def write_to(self, rows: I64) -> None:
        """Set the rows for the versions of the next round, the coordinator's own first."""
        self._rows = rows

    def serve(self, source: int, aggregated: F32, answers: ClientAnswers) -> F32:
        """Run a round; return the first version and write the others.

        Parameters
        ----------
        source : int
            Handle of the version published last.
        aggregated : ndarray of float32, shape (n_columns,)
        answers : ClientAnswers

        Raises
        ------
        ScenarioError
            If the server's output does not fit its announced shape, sizes or values.
        """
        store = self._store
        threads = ALONE if self.is_foreign else store.threads
        round_ = RoundContext(self._seed, self.rounds, self._coordinator, store.layout, threads)
        published = store.merged(source)
        published = np.array(published) if self.is_foreign else published.view()
        published.flags.writeable = False  # late answers may still refer to it
        downlink = self._server.round(published, aggregated, answers, round_)
        self._check(downlink, aggregated)
        for k in range(1, self.n_versions):
            keys = philox_words(self._seed, k, self.rounds, np.array([self._coordinator]), ENCODED)[:, 0]
            store.store_merged(
                int(self._rows[k]), source, downlink.versions[k], keys if store.is_half else None
            )
        if downlink.version_of is None:
            self.version_of = np.zeros(self._coordinator, np.int64)
        else:
            self.version_of = np.array(downlink.version_of, np.int64)
        self.extras = {**downlink.extras, **downlink.own, **downlink.one_of, **downlink.stands_for}
        self.rounds += 1
        own: F32 = downlink.versions[0]
        return own

    def state(self) -> dict[str, Any]:
        """Return the server's state and the last downlink, for a checkpoint."""
        return {
            "server": self._server.state(),
            "rounds": self.rounds,
            "version_of": self.version_of,
            "extras": dict(self.extras),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a :meth:`state`.

        Raises
        ------
        ValueError
            If it names a version that does not exist.
        """
        check_array("serving.version_of", state["version_of"], np.zeros(self._coordinator, np.int64))
        check_range("serving.version_of", state["version_of"], 0, self.n_versions - 1)
        self._server.restore(state["server"])
        self.rounds, self.version_of, self.extras = state["rounds"], state["version_of"], state["extras"]

    def _check(self, downlink: Downlink, aggregated: F32) -> None:
        which = f"protocol.server: {registry_name(self._server)}: round {self.rounds}"
        shape, due = np.shape(downlink.versions), (self.n_versions, len(aggregated))
        if shape != due:
            raise ScenarioError(
                f"{which} returned versions of shape {shape}; expected {due}: n_versions models of the "
                "columns that receivers merge"
            )
        if not are_all_finite(downlink.versions):
            raise ScenarioError(
                f"{which} returned NaN or infinite values; lower its learning rate, or fix the server"
            )
        chosen = downlink.version_of
        if chosen is not None and (
            np.shape(chosen) != (self._coordinator,)
            or np.min(chosen) < 0
            or np.max(chosen) >= self.n_versions
        ):
            raise ScenarioError(
                f"{which}: version_of must hold an integer from 0 to {self.n_versions - 1} for each of "
                f"{self._coordinator} clients"
            )
        if any(len(rows) != self._coordinator for rows in downlink.own.values()):
            raise ScenarioError(f"{which}: own must have a row for each of {self._coordinator} clients")
        if downlink.bytes_to_each != self._server.extra_bytes:
            raise ScenarioError(
                f"{which} returned extras of {downlink.bytes_to_each} bytes, but its extra_bytes announced "
                f"{self._server.extra_bytes}; they must agree"
            )
