"""Static overlays: the graph families a scenario can name, and their neighbours.

A family goes by the name of its function in :mod:`topologies`, and its options are the function's arguments.
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from gossiprec.errors import ScenarioError
from gossiprec.options import LARGEST, Options
from gossiprec.rng import generator


class Ring(Options):
    """Every node is linked to its nearest nodes on a ring."""

    family: Literal["ring"]
    k: int = Field(
        default=2, ge=2, le=LARGEST, description="degree, even: half of the neighbours lie on each side"
    )


class RandomRegular(Options):
    """Every node has the same number of random neighbours."""

    family: Literal["random-regular"]
    degree: int = Field(default=3, ge=1, le=LARGEST, description="neighbours of every node")


class Complete(Options):
    """Every node is linked to every other."""

    family: Literal["complete"]


class Star(Options):
    """Node 0 is linked to all others, which are linked to nobody else."""

    family: Literal["star"]


class WattsStrogatz(Options):
    """A small world: a ring some of whose links are rewired."""

    family: Literal["watts-strogatz"]
    k: int = Field(default=4, ge=2, le=LARGEST, description="mean degree, even")
    p: float = Field(default=0.1, ge=0, le=1, description="probability that a link is rewired")


class ErdosRenyi(Options):
    """Every two nodes are linked with the same probability."""

    family: Literal["erdos-renyi"]
    p: float = Field(gt=0, le=1, description="probability of a link")


Family: TypeAlias = Ring | RandomRegular | Complete | Star | WattsStrogatz | ErdosRenyi
Graph: TypeAlias = Annotated[Family, Field(discriminator="family")]


class StaticViewOptions(Options):
    """A node knows its neighbours in a fixed graph, and nobody else."""

    size: ClassVar[None] = None
    """Nodes may have different degrees."""
    graph: Graph

    @model_validator(mode="before")
    @classmethod
    def _nothing_of_random_views(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        for key in ("size", "refresh"):
            if raw.get(key) is not None:
                raise ValueError(
                    f"found graph and {key}, but in a fixed graph a node knows its neighbours and keeps them; "
                    f"remove {key} (or set it to null), or remove graph"
                )
        return {key: value for key, value in raw.items() if key not in ("size", "refresh")}


def neighbors_in(graph: Family, n_nodes: int, *, seed: int, key: str) -> list[npt.NDArray[np.int64]]:
    """Draw the run's graph and return the out-neighbours of every node.

    Parameters
    ----------
    graph : Family
    n_nodes : int
    seed : int
        Of the run.
    key : str
        Where the scenario describes the graph, for messages.

    Raises
    ------
    ScenarioError
        If the family has no such graph over so many nodes.
    """
    import topologies  # here, because networkx takes a third of a second, and most scenarios need no graph

    draw = getattr(topologies, graph.family.replace("-", "_"))
    options = graph.model_dump(exclude={"family"})
    if "seed" in inspect.signature(draw).parameters:
        options["seed"] = int(generator(seed, "graph").integers(2**63))
    try:
        return topologies.out_neighbors(draw(n_nodes, **options))
    except ValueError as error:
        raise ScenarioError(f"{key}: {error} ({n_nodes} nodes)") from error
