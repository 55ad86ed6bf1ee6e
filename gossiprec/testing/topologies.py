"""Contracts of graph families, of view exchanges and of session formats: connected graphs, views of other nodes,
keyed draws, and possible recordings of a file that the manifest names.
"""

from __future__ import annotations

import gzip
import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from gossiprec.base.errors import DataError
from gossiprec.base.inputs import record_inputs
from gossiprec.data.loading import keep_first_users
from gossiprec.data.sources import FileSource
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.network.graphs import GraphFamily
from gossiprec.network.overlay import ExchangedViews, ExchangeOptions, OverlayContext, UserProfiles
from gossiprec.network.sessions import Recording, SessionFormat
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.clock import TimeUnit
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import CITY, check_claims, tiny_scenario

if TYPE_CHECKING:
    import networkx as nx


SEEDS = range(20)


@dataclass(frozen=True)
class TopologyCase:
    """A family with its options, and a number of nodes."""

    family: GraphFamily
    options: Mapping[str, Any]
    n_nodes: int

    def graph(self, seed: int = 0, n_nodes: int | None = None) -> nx.Graph:
        """Return a graph over nodes that have users with random items and places."""
        n, draw = self.n_nodes if n_nodes is None else n_nodes, np.random.default_rng(7)
        given = {
            "n": n,
            "seed": seed,
            "items": [draw.choice(30, 12, replace=False) for _ in range(n)],
            "places": draw.uniform((40, 0), (50, 10), (n, 2)),
        }
        return self.family.graph(given, self.options)


def check_topology(
    family: GraphFamily, options: Mapping[str, Any] | None = None, *, n_nodes: int = 12
) -> None:
    """Check a graph family by drawing graphs.

    Parameters
    ----------
    family : GraphFamily
        The family, as in ``gossiprec.network.graphs.FAMILIES["..."]``.
    options : mapping, optional
        Options as in a scenario.
    n_nodes : int
        A number of nodes for which the family has graphs.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    case = TopologyCase(family, options or {}, n_nodes)
    check_claims(f"the family {family.name}", __name__, case=case)


def _edges(graph: nx.Graph) -> list[tuple[int, ...]]:
    return sorted(tuple(sorted(edge)) for edge in graph.edges)


def its_docstring_and_options_are_described(case: TopologyCase) -> None:
    """Have a docstring that names the returned graph, and a meaning of each option."""
    summary, options = case.family.summary, case.family.options
    assert summary.startswith("Return "), f"It begins with {summary!r}, must begin with 'Return '."
    missing = [name for name, option in options.items() if not option.meaning]
    assert not missing, f"Found no meaning of {', '.join(missing)}."


def graphs_are_over_the_first_numbers(case: TopologyCase) -> None:
    """Have the nodes 0 to n - 1, with no link from a node to itself."""
    for seed in SEEDS:
        graph = case.graph(seed)
        assert sorted(graph) == list(range(case.n_nodes)), f"Found {sorted(graph)} for n = {case.n_nodes}."
        loops = [node for node in graph if graph.has_edge(node, node)]
        assert not loops, f"Nodes {loops} are linked to themselves."


def graphs_are_connected(case: TopologyCase) -> None:
    """Be undirected and connected, whatever the seed."""
    import networkx as nx

    for seed in SEEDS:
        graph = case.graph(seed)
        assert not graph.is_directed(), "The links are directed."
        n_parts = nx.number_connected_components(graph)
        assert n_parts == 1, f"Found {n_parts} parts with seed {seed}."


def graphs_follow_from_the_arguments(case: TopologyCase) -> None:
    """Return the same graph for the same arguments."""
    assert _edges(case.graph(3)) == _edges(case.graph(3)), "Two calls gave different graphs."


def another_seed_gives_another_graph(case: TopologyCase) -> None:
    """Return another graph for another seed, if it takes one."""
    if "seed" in case.family.asks:
        different = len({str(_edges(case.graph(seed))) for seed in range(10)})
        assert different > 5, f"Ten seeds gave {different} different graphs."


def impossible_sizes_are_refused(case: TopologyCase) -> None:
    """Refuse sizes without a graph by a ValueError, which scenarios report."""
    try:
        found = case.graph(n_nodes=1)
    except ValueError:
        return
    assert sorted(found) == [0], f"Found {sorted(found)} for n = 1."


FANOUT = 3


@dataclass(frozen=True)
class SamplingCase:
    """A sampling with its options, and users with known likes and homes."""

    sampling: type[ExchangedViews]
    options: ExchangeOptions
    split: Split

    @property
    def fewest(self) -> int:
        """Number of nodes that fill a view and include its owner."""
        return self.options.size + 1

    def views(self, n_nodes: int, seed: int = 1, gone: Sequence[int] = ()) -> ExchangedViews:
        """Return views of nodes, some of which are permanently offline."""
        online = [node not in gone for node in range(n_nodes)]
        availability = Availability(online, [np.zeros(0)] * n_nodes)
        profiles = UserProfiles.of(keep_first_users(self.split, n_nodes))
        return self.sampling(self.options, OverlayContext(n_nodes, FANOUT, seed, availability, profiles))


def check_sampling(sampling: type[ExchangedViews], options: Mapping[str, Any] | None = None) -> None:
    """Check a way of exchanging views by playing it.

    Parameters
    ----------
    sampling : type of ExchangedViews
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario's ``view``, without the name. By default views hold 4 peers.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    (name,) = get_args(sampling.Options.model_fields["sampling"].annotation)
    chosen = sampling.Options.model_validate({"sampling": name, "size": 4, **(options or {})})
    city = {**CITY, "users": chosen.size + 16, "checkins": 20 * (chosen.size + 16)}
    data = load_data(load_scenario(tiny_scenario(dataset=city)))
    case = SamplingCase(sampling, chosen, data)
    check_claims(f"the sampling {sampling.__name__}", __name__, sampled=case)


def _wakes(case: SamplingCase) -> Iterator[tuple[ExchangedViews, int, list[int]]]:
    """Yield the views of small networks after each wake, the node that woke, and its receivers."""
    for more, seed, gone in itertools.product((0, 3, 7), range(4), ((), (0,), (1, 4), (0, 2, 3))):
        n_nodes = case.fewest + more
        views = case.views(n_nodes, seed, gone)
        for number, node in itertools.product(range(6), range(n_nodes)):
            if node not in gone:
                yield views, node, list(views.next_receivers(node, float(number)))


def views_hold_distinct_others(sampled: SamplingCase) -> None:
    """Hold in each view up to `size` distinct existing nodes, never the node itself."""
    for views, _, _ in _wakes(sampled):
        for owner, own in enumerate(views.views):
            assert len(own) <= sampled.options.size, f"The view of node {owner} holds {len(own)} peers."
            assert owner not in own, f"Node {owner} has itself in its view."
            assert set(own) <= set(range(views.n_nodes)), f"The view of node {owner} holds {sorted(own)}."


def wakes_send_to_peers_of_the_view(sampled: SamplingCase) -> None:
    """Send to as many distinct peers of the view as the fanout, or to all of them."""
    for views, node, receivers in _wakes(sampled):
        due = min(FANOUT, len(views.views[node]))
        assert len(set(receivers)) == len(receivers) == due, f"Found {receivers}, must be {due} peers."
        assert set(receivers) <= set(views.views[node]), f"Found {receivers} of {sorted(views.views[node])}."


def views_follow_from_the_seed(sampled: SamplingCase) -> None:
    """Run identically with the same seed, and differently with another."""

    def played(seed: int) -> Any:
        nodes = range(sampled.split.n_users)
        views = sampled.views(len(nodes), seed)
        sent = [list(views.next_receivers(node, float(n))) for n, node in itertools.product(range(5), nodes)]
        return sent, [list(own.items()) for own in views.views]

    assert played(1) == played(1), "Two runs with the same seed differ."
    assert played(1) != played(2), "Another seed changes nothing."


def a_missed_wake_uses_its_draws(sampled: SamplingCase) -> None:
    """Draw the same words for the wake after a missed wake."""
    awake, away = sampled.views(sampled.fewest), sampled.views(sampled.fewest)
    awake.next_receivers(2, 0.0)
    away.on_missed_wake(2, 0.0)
    assert awake._streams.next_draw(2) == away._streams.next_draw(2), "The words of wake 1 differ."


def a_single_online_node_sends_nothing(sampled: SamplingCase) -> None:
    """Send to no node, and keep an empty view, after some wakes at which no other node is online."""
    views = sampled.views(sampled.fewest, gone=range(1, sampled.fewest))
    for number in range(2 * sampled.options.size):
        receivers = list(views.next_receivers(0, float(number)))
    assert receivers == [], f"Found {receivers} after {number + 1} wakes."
    assert not views.views[0], f"The view holds {sorted(views.views[0])} after {number + 1} wakes."


def a_node_without_peers_finds_some(sampled: SamplingCase) -> None:
    """Send to online nodes only after a node has lost all its peers."""
    other = sampled.fewest - 1
    for seed in range(4):
        views = sampled.views(sampled.fewest, seed, gone=range(1, other))
        views.views = [{} for _ in views.views]
        receivers = list(views.next_receivers(0, 1.0))
        assert receivers in ([other], []), f"Found {receivers}, but only node {other} is online."


@dataclass(frozen=True)
class SessionFormatCase:
    """A format with its options, and a file of the format."""

    format: SessionFormat
    path: Path

    def read(self) -> list[Recording]:
        """Return the recordings of the file."""
        return list(self.format.recordings(FileSource(self.path)))


def check_session_format(
    format: type[SessionFormat], path: str | os.PathLike[str], options: Mapping[str, Any] | None = None
) -> None:
    """Check a format of sessions by reading a file.

    Parameters
    ----------
    format : type of SessionFormat
        The class; it need not be registered.
    path : path
        A small file of the format.
    options : mapping, optional
        Options as in a scenario.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    made = format(format.Options.model_validate(options or {}))
    case = SessionFormatCase(made, Path(path))
    check_claims(f"the session format {format.__name__}", __name__, recorded=case)


def it_is_described(recorded: SessionFormatCase) -> None:
    """Have a docstring, and a unit of time or None."""
    assert type(recorded.format).__doc__, "Found no docstring."
    unit = recorded.format.unit
    assert unit is None or unit in get_args(TimeUnit), f"Found unit {unit!r}."


def recordings_are_possible(recorded: SessionFormatCase) -> None:
    """Yield at least one recording, with ascending changes within its length."""
    found = recorded.read()
    assert found, "Found no recording."
    faults = [f"{one.place}: {fault}" for one in found if (fault := one.fault())]
    assert not faults, f"Found {faults[0]}."


def reading_again_gives_the_same(recorded: SessionFormatCase) -> None:
    """Yield the same recordings in the same order at each reading."""
    once, again = (
        [(one.place, one.online, one.changes.tolist(), one.length) for one in recorded.read()]
        for _ in range(2)
    )
    assert once == again, "Two readings differ."


def the_file_is_recorded(recorded: SessionFormatCase) -> None:
    """Open the file by the given source, so that the manifest has its fingerprint."""
    with record_inputs() as inputs:
        recorded.read()
    assert list(inputs) == [str(recorded.path)], f"Found {list(inputs)}."


def a_damaged_file_is_refused(recorded: SessionFormatCase) -> None:
    """Refuse a compressed file that is cut, by a DataError that names it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cut.gz"
        packed = gzip.compress(recorded.path.read_bytes(), mtime=0)
        path.write_bytes(packed[: len(packed) // 2])
        message = ""
        try:
            replace(recorded, path=path).read()
        except DataError as error:
            message = str(error)
    assert message, "It read a file that is cut."
    assert str(path) in message, f"The message names no file: {message}"
