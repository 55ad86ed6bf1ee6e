"""The limit on whose data and models an attack may ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from gossiprec.arrays import I64, Bools
from gossiprec.attacks import Attack
from gossiprec.attacks.base import World
from gossiprec.errors import PluginError

T = TypeVar("T")


class OwnNodes:
    """The nodes that observe for one attack, and all users if the coordinator is one of them.

    An attack may ask for data while it is made, when its nodes are not known yet: such requests are checked by
    :meth:`limit_to`.

    Parameters
    ----------
    name : str
        The name of the attack in the scenario.
    world : World
    """

    def __init__(self, name: str, world: World) -> None:
        self._name, self._world = name, world
        self._own: Bools | None = None
        self._asked: list[I64] = []

    def limited(self) -> World:
        """Return the world with functions that answer for the attack's own nodes only."""
        world = self._world
        return replace(
            world,
            data_of=self._checked(world.data_of, "data"),
            own_models=self._checked(world.own_models, "models"),
        )

    def limit_to(self, attack: Attack) -> None:
        """Learn which nodes observe.

        Raises
        ------
        PluginError
            If the attack has asked for the data of another node while it was made.
        """
        n_users, coordinator = self._world.n_users, self._world.coordinator
        own = np.zeros(n_users + 1 if coordinator is None else max(n_users, coordinator) + 1, np.bool_)
        own[np.concatenate([attack.nodes, *attack.pools]).astype(np.int64)] = True
        if coordinator is not None and own[coordinator]:
            own[:n_users] = True
        self._own = own
        for nodes in self._asked:
            self._check(nodes, "data")
        self._asked.clear()

    def _checked(self, answer: Callable[[I64], T], of: str) -> Callable[[I64], T]:
        def ask(nodes: I64) -> T:
            self._check(np.asarray(nodes), of)
            return answer(nodes)

        return ask

    def _check(self, nodes: I64, of: str) -> None:
        if self._own is not None:
            known = (nodes >= 0) & (nodes < len(self._own))
            foreign = np.unique(nodes[~(known & self._own[np.where(known, nodes, 0)])]).tolist()
            if foreign:
                raise PluginError(
                    f"observers: {self._name} asked for the {of} of nodes {foreign}, which are not its own; expected "
                    "nodes that observe, or users if the coordinator observes; ask for these only"
                )
        elif of == "data":
            self._asked.append(nodes.copy())
        else:
            raise PluginError(
                f"observers: {self._name} asked for models before the run began; ask for them in rankings() only"
            )
