"""Graphs that a scenario names beyond families: files, frozen ones, sequences."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import distinct_below
from gossiprec.network import graphs
from gossiprec.network.overlay import OverlayContext, WordStreams, pick_distinct
from gossiprec.network.overlay.graph_options import Graph, family_options, load_graph, load_graph_sequence
from gossiprec.network.overlay.views import CHOICE, StaticViewOptions, make_graph_views
from gossiprec.network.sim.availability import Availability

KEY = "protocol.view.graph"


def options(raw):
    return TypeAdapter(Graph).validate_python(raw)


def views(raw, n_nodes=24, fanout=2, seed=1):
    return make_graph_views(
        options(raw), OverlayContext(n_nodes, fanout, seed, Availability.always_online(n_nodes)), key=KEY
    )


def lists(neighbors):
    return [peers.tolist() for peers in neighbors]


def neighbors_in(raw, n_nodes):
    return lists(graphs.out_neighbors(load_graph(options(raw), n_nodes, seed=1, key=KEY)))


def test_a_frozen_graph_goes_by_its_name():
    expected = graphs.out_neighbors(graphs.frozen_graph("small-world-24"))

    assert neighbors_in({"frozen": "small-world-24"}, 24) == lists(expected)


def test_a_graph_in_a_file_keeps_its_directions(tmp_path):
    (tmp_path / "g.edges").write_text("# directed\n0 1\n1 2\n2 0\n0 2\n")

    assert neighbors_in({"file": str(tmp_path / "g.edges")}, 3) == [[1, 2], [2], [0]]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"frozen": "karate-club"}, "graph: frozen graph karate-club: found 34 nodes, but the data have 24"),
        ({"file": "nowhere.edges"}, "protocol.view.graph: nowhere.edges: no such file"),
        ({"file": "nowhere.dat"}, "found suffix '.dat'"),
        ({"family": "torus", "rows": 5}, r"protocol.view.graph: found 5 rows for 24 nodes.*\(24 nodes\)"),
        ({"family": "nearest-by-taste"}, "links nodes by their users' data"),
        ({"sequence": [{"from": 0, "family": "ring"}, {"from": 3, "frozen": "karate-club"}]},
         "protocol.view.graph.sequence.1: frozen graph karate-club: found 34"),
        ({"sequence": "nowhere"}, "protocol.view.graph.sequence: nowhere: no such file or folder"),
    ],
)  # fmt: skip
def test_a_graph_that_does_not_fit_is_an_error_of_the_scenario(raw, message):
    with pytest.raises(ScenarioError, match=message):
        views(raw)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"frozen": "karate"}, "did you mean 'karate-club'"),
        ({"familly": "ring"}, "found a graph with familly; expected one of file, frozen, sequence, family"),
        ({}, "found a graph with no keys"),
        ({"sequence": [{"from": 1, "family": "ring"}]}, "expected 0, the start"),
        (
            {"sequence": [{"from": 0, "family": "ring"}, {"from": 0, "family": "star"}]},
            "expected ascending times",
        ),
        ({"sequence": [{"family": "ring"}]}, "Field required"),
        ({"sequence": []}, "at least 1"),
        ({"sequence": [{"from": -1, "family": "ring"}]}, "greater than or equal to 0"),
        ({"family": "ring", "from": 0}, "Extra inputs"),
        ({"file": "a.edges", "family": "ring"}, "Extra inputs"),
    ],
)
def test_contradictory_graphs_are_refused(graph, message):
    with pytest.raises(ValidationError, match=message):
        StaticViewOptions.model_validate({"graph": graph})


def test_every_family_can_be_named_with_the_options_its_function_takes():
    for name, family in graphs.FAMILIES.members():
        model = family_options(name)
        assert set(model.model_fields) == {"family", *family.options}
        stated = {"family": name} | ({"p": 0.5} if name == "erdos-renyi" else {})
        assert pickle.loads(pickle.dumps(options(stated))) == options(stated)


def sequence(raw):
    return options({"sequence": raw})


def test_neighbours_are_those_of_the_graph_in_force():
    changing = views(
        {"sequence": [{"from": 0, "family": "star"}, {"from": 2.5, "family": "ring"}]}, n_nodes=6
    )

    assert changing.next_receivers(3, 0.0) == [0]
    assert changing.next_receivers(3, 2.4999) == [0]
    assert changing.next_receivers(3, 2.5) == [2, 4]
    assert changing.next_receivers(3, 1e9) == [2, 4]


def test_a_sequence_of_one_graph_sends_as_that_graph_does():
    raw = {"family": "random-regular", "degree": 5}
    one, many = views(raw), views({"sequence": [{"from": 0, **raw}]})

    for wake in range(40):
        for node in range(24):
            assert list(one.next_receivers(node, wake)) == list(many.next_receivers(node, wake))


def test_graphs_of_a_sequence_are_drawn_each_on_its_own():
    raw = {"family": "random-regular", "degree": 3}
    _, graphs = load_graph_sequence(sequence([{"from": 0, **raw}, {"from": 1, **raw}]), 24, seed=1, key=KEY)

    assert sorted(graphs[0].edges) != sorted(graphs[1].edges)


def test_missed_wakes_take_their_draws_with_them():
    raw = {"family": "complete"}
    for made in (lambda: views(raw), lambda: views({"sequence": [{"from": 0, **raw}]})):
        awake, away = made(), made()
        awake.next_receivers(2, 0.0)
        away.on_missed_wake(2, 0.0)
        assert list(awake.next_receivers(2, 1.0)) == list(away.next_receivers(2, 1.0))


def test_a_folder_of_snapshots_is_read_in_the_order_of_its_times(tmp_path):
    graphs.write_graph(graphs.star(5), tmp_path / "0.edges")
    graphs.write_graph(graphs.complete(5), tmp_path / "12.5.graphml")
    graphs.write_graph(graphs.ring(5, 2), tmp_path / "3.json")
    (tmp_path / "notes.md").write_text("not a graph")
    starts, read = load_graph_sequence(sequence(str(tmp_path)), 5, seed=1, key=KEY)

    assert starts == [0.0, 3.0, 12.5]
    assert [graph.number_of_edges() for graph in read] == [4, 5, 10]


def test_snapshots_may_stand_in_one_json_file(tmp_path):
    def snapshot(start, links):
        return {"from": start, "edges": [{"source": a, "target": b} for a, b in links]}

    path = tmp_path / "all.json"
    path.write_text(json.dumps([snapshot(0, [(0, 1), (1, 2)]), snapshot(4, [(0, 2), (0, 1)])]))
    starts, graphs = load_graph_sequence(sequence(str(path)), 3, seed=1, key=KEY)

    assert starts == [0.0, 4.0]
    assert sorted(graphs[1].edges) == [(0, 1), (0, 2)]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "found no graph; expected files named by their times"),
        ({"1.edges": "0 1"}, "the first graph starts at 1"),
        ({"start.edges": "0 1"}, "found time 'start'; expected a number of at least 0"),
        ({"nan.edges": "0 1"}, "found time 'nan'"),
        ({"0.edges": "0 1\n1 1"}, "0.edges: found node 1 linked to itself"),
        ({"0.edges": "0 1"}, "from 0: found 2 nodes, but the data have 3 users"),
        ({"0.edges": "0 1\n1 2", "0.0.json": "{}"}, "expected ascending times"),
    ],
)
def test_folders_that_are_no_sequence_are_refused(files, message, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ScenarioError, match=message):
        load_graph_sequence(sequence(str(tmp_path)), 3, seed=1, key=KEY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{}", "found no list of graphs"),
        ("[1]", "found no list of graphs"),
        ('[{"from": null, "edges": []}]', "graph 0: found time None"),
        ('[{"from": true, "edges": []}]', "graph 0: found time True"),
        ('[{"from": 0, "edges": 3}]', "graph 0: found no list of links"),
    ],
)
def test_files_that_are_no_sequence_are_refused(text, message, tmp_path):
    (tmp_path / "all.json").write_text(text)
    with pytest.raises(ScenarioError, match=message):
        load_graph_sequence(sequence(str(tmp_path / "all.json")), 3, seed=1, key=KEY)


@given(
    n_picks=st.integers(1, 6),
    size=st.integers(0, 9),
    words=st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6),
)
def test_picks_of_one_wake_are_those_that_are_made_for_many_at_once(n_picks, size, words):
    pool = [10 * place for place in range(size)]
    if size <= n_picks:
        assert pick_distinct(pool, n_picks, words) == pool
    else:
        together = distinct_below(np.array(words[:n_picks], np.uint32), size)
        assert pick_distinct(pool, n_picks, words) == [pool[place] for place in together]


def test_words_of_a_wake_depend_on_nothing_but_node_and_number():
    few, many = (WordStreams(n, 5, seed=1, purpose=CHOICE) for n in (3, 30))
    of_few = [[few.next_draw(node) for _ in range(40)] for node in (0, 2)]

    assert [[many.next_draw(node) for _ in range(40)] for node in (0, 2)] == of_few
    assert len({tuple(words) for words in of_few[0]}) == 40
