"""Options of graphs in a scenario: a family, a file, a frozen graph, or a sequence of graphs.

The option sets of families are derived from the declarations of their functions
(:mod:`gossiprec.network.graphs.registry`), so that each option is declared once.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, Union

from pydantic import Discriminator, Field, Tag, create_model, field_validator

from gossiprec.base.errors import suggestion
from gossiprec.base.options import Options, RegisteredOptions
from gossiprec.network import graphs
from gossiprec.network.graphs import FAMILIES

G = TypeVar("G", bound=Options)


class FamilyGraph(Options):
    """A graph drawn from a family, with its options; each family has a subclass."""

    family: str

    @property
    def chosen(self) -> dict[str, Any]:
        """The values of the family's own options."""
        return {name: getattr(self, name) for name in FAMILIES[self.family].options}


class FrozenGraph(Options):
    """A graph that comes with gossiprec."""

    frozen: str = Field(description="name of a bundled graph, as listed by `gossiprec topology list`")

    @field_validator("frozen")
    @classmethod
    def _known(cls, name: str) -> str:
        known = graphs.frozen_names()
        if name not in known:
            raise ValueError(
                f"unknown bundled graph {name!r}; known: {', '.join(known)}{suggestion(name, known)}"
            )
        return name


class FileGraph(Options):
    """A graph in a file, over nodes 0 .. n - 1."""

    file: str = Field(min_length=1, description="path, relative to the current directory")
    format: Literal["graphml", "edges", "json"] | None = Field(
        default=None, description="format; default: given by the suffix of the file"
    )
    directed: bool | None = Field(
        default=None, description="whether links are directed; default: as stated in the file"
    )


@functools.cache
def family_options(name: str) -> type[FamilyGraph]:
    """Return the option set of a family.

    Raises
    ------
    ScenarioError
        If there is no family of that name, or its plug-in cannot be used.
    """
    family = FAMILIES[name]
    fields: dict[str, Any] = {"family": (Literal[family.name], ...)}
    for key, o in family.options.items():
        default = {} if o.default is graphs.REQUIRED else {"default": o.default}
        fields[key] = (o.kind, Field(**default, description=o.meaning, ge=o.least, le=o.most))
    return create_model(
        _class_name(name), __base__=FamilyGraph, __module__=__name__, __doc__=family.summary, **fields
    )


def timed_family_options(name: str) -> type[FamilyGraph]:
    """Return the option set of a family's graph with a start time."""
    return _dated(family_options(name))


@functools.cache
def _dated(graph: type[G]) -> type[G]:
    """Return the option set of a graph with a start time."""
    start = (float, Field(alias="from", ge=0, description="virtual time from which the graph is used"))
    return create_model(
        f"{graph.__name__}From", __base__=graph, __module__=__name__, __doc__=graph.__doc__, start=start
    )


def __getattr__(name: str) -> type[FamilyGraph]:
    """Return the option set of a family by its class name, for unpickling in another process."""
    for family in FAMILIES:
        if name == _class_name(family):
            return family_options(family)
        if name == f"{_class_name(family)}From":
            return timed_family_options(family)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _class_name(family: str) -> str:
    return "".join(word.capitalize() for word in family.split("-"))


KINDS = {
    "file": "FileGraph",
    "frozen": "FrozenGraph",
    "sequence": "GraphSequence",
    "family": "FamilyGraph",
}
"""Kinds of graphs by the key that identifies them; no kind is named like a key, so messages can tell them apart."""


def graph_kind(raw: Any) -> str:
    """Return the kind of graph that a scenario specifies, identified by its key."""
    for key, kind in KINDS.items():
        if (raw.get(key) if isinstance(raw, dict) else getattr(raw, key, None)) is not None:
            return kind
    return KINDS["family"]


if TYPE_CHECKING:
    PlainGraph: TypeAlias = FamilyGraph | FileGraph | FrozenGraph
    DatedGraph: TypeAlias = Any
else:
    FileGraphFrom, FrozenGraphFrom = _dated(FileGraph), _dated(FrozenGraph)

    def _one_of(families: Any, file: type, frozen: type, **more: type) -> Any:
        drawn = Annotated[FamilyGraph, RegisteredOptions(FAMILIES, "family", families)]
        kinds = {"FamilyGraph": drawn, "FileGraph": file, "FrozenGraph": frozen, **more}
        return Annotated[
            Union[tuple(Annotated[kind, Tag(key)] for key, kind in kinds.items())],  # noqa: UP007
            Discriminator(graph_kind),
        ]

    PlainGraph = _one_of(family_options, FileGraph, FrozenGraph)
    DatedGraph = _one_of(timed_family_options, FileGraphFrom, FrozenGraphFrom)


class GraphSequence(Options):
    """Graphs that follow one another, or a folder or JSON file of graphs."""

    sequence: Annotated[str, Field(min_length=1)] | Annotated[tuple[DatedGraph, ...], Field(min_length=1)] = (
        Field(
            description="a list of graphs, each with `from`: the virtual time from which the graph is used; or a path"
        )
    )

    @field_validator("sequence")
    @classmethod
    def _in_order(cls, sequence: Any) -> Any:
        if isinstance(sequence, tuple):
            check_starts([graph.start for graph in sequence])
        return sequence


def check_starts(starts: list[float]) -> None:
    """Refuse start times of graphs that do not begin at 0 or are not ascending.

    Raises
    ------
    ValueError
    """
    if starts[0] != 0:
        raise ValueError(f"the first graph starts at {starts[0]:g}; expected 0, the start of the run")
    if any(later <= earlier for earlier, later in pairwise(starts)):
        raise ValueError(f"found graphs from {', '.join(f'{s:g}' for s in starts)}; expected ascending times")


if TYPE_CHECKING:
    Graph: TypeAlias = PlainGraph | GraphSequence
else:
    Graph = _one_of(family_options, FileGraph, FrozenGraph, GraphSequence=GraphSequence)
