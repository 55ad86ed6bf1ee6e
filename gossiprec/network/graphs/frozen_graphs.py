"""Bundled graphs by name: files in ``gossiprec/network/graphs/frozen`` that never change."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING

from gossiprec.network.graphs.files import build_graph, read_edge_list

if TYPE_CHECKING:
    import networkx as nx

_FOLDER = resources.files("gossiprec.network.graphs") / "frozen"
_SUFFIX = ".edges"


@functools.cache
def frozen_names() -> tuple[str, ...]:
    """Return the names of the bundled graphs, in alphabetical order."""
    files = (file.name for file in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


def frozen_graph(name: str) -> nx.Graph:
    """Return a bundled graph.

    Raises
    ------
    ValueError
        If there is no graph of that name.
    """
    return build_graph(*read_edge_list(frozen_text(name)), directed=None)


def frozen_summary(name: str) -> str:
    """Return the description of a bundled graph: the second line of its file."""
    return frozen_text(name).splitlines()[1].lstrip("# ")


def frozen_text(name: str) -> str:
    """Return the text of a bundled graph's file."""
    if name not in frozen_names():
        raise ValueError(f"unknown bundled graph {name!r}; expected one of {', '.join(frozen_names())}")
    return (_FOLDER / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
