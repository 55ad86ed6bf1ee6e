"""Bad input of the sections network and churn: one clear message each, before anything is trained."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import prepare
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Return a function that prepares a scenario of 12 nodes in a folder of files, and gives the message."""
    monkeypatch.chdir(tmp_path)

    def refuse(files=None, **sections):
        for name, content in (files or {}).items():
            if isinstance(content, str):
                (tmp_path / name).write_text(content)
            else:
                np.save(tmp_path / name, content)
        with pytest.raises(ScenarioError) as caught:
            prepare(load_scenario(tiny(observers=[], **sections)))
        message = str(caught.value)
        assert "\n" not in message
        return message

    return refuse


def lines(*values):
    return "\n".join(map(str, values)) + "\n"


LATENCIES = {
    "negative": ({"law": "constant", "value": -1}, "network.latency.value: found -1"),
    "not a number": ({"law": "exponential", "mean": float("nan")}, "network.latency.mean: found nan"),
    "endless": (
        {"law": "lognormal", "median": 1e9, "sigma": 1},
        "network.latency.median: found 1000000000.0",
    ),
    "swapped": ({"law": "uniform", "low": 2, "high": 1}, "found low 2 above high 1; swap them"),
    "no file": (
        {"law": "trace", "path": "nowhere.txt"},
        "network.latency.path: nowhere.txt: no such file in",
    ),
    "no matrix": (
        {"law": "pairs", "path": "nowhere.npy"},
        "network.latency.path: nowhere.npy: no such file in ",
    ),
    "no speed": ({"law": "geographic"}, "network.latency.speed_km: is missing"),
}


@pytest.mark.parametrize(("latency", "message"), LATENCIES.values(), ids=LATENCIES)
def test_a_bad_latency_is_refused(refused, latency, message):
    assert message in refused(network={"latency": latency})


TRACES = {
    "text": ("0.1\nfast\n", "t.txt: line 2: found 'fast'; expected a finite number, 0 or more"),
    "negative": ("0.1\n-3\n", "t.txt: line 2: found '-3'; expected a finite number, 0 or more"),
    "nan": ("nan\n", "t.txt: line 1: found 'nan'"),
    "empty": ("\n\n", "t.txt: found no row"),
}


@pytest.mark.parametrize(("content", "message"), TRACES.values(), ids=TRACES)
def test_a_bad_trace_is_refused(refused, content, message):
    assert message in refused({"t.txt": content}, network={"latency": {"law": "trace", "path": "t.txt"}})


MATRICES = {
    "size": (np.zeros((3, 4)), "m.npy is 3 x 4, must be 12 x 12: sender by receiver, for 12 nodes"),
    "negative": (-np.ones((12, 12)), "m.npy: row and column 1, 2: found -1"),
    "nan": (np.full((12, 12), np.nan), "m.npy: row and column 1, 2: found nan"),
    "words": (np.full((12, 12), "x"), "m.npy holds <U1; expected numbers"),
}


@pytest.mark.parametrize(("matrix", "message"), MATRICES.values(), ids=MATRICES)
def test_a_bad_matrix_is_refused(refused, matrix, message):
    assert message in refused({"m.npy": matrix}, network={"latency": {"law": "pairs", "path": "m.npy"}})


def test_a_pickle_in_a_matrix_is_never_opened(refused):
    trap = np.array([{"a": 1}], dtype=object)

    message = refused({"m.npy": trap}, network={"latency": {"law": "pairs", "path": "m.npy"}})
    assert "cannot read m.npy" in message


def test_coordinates_of_too_few_nodes_are_refused(refused):
    files = {"c.csv": lines("node,latitude,longitude", "0,1,1")}
    latency = {"law": "geographic", "coordinates": "c.csv", "speed_km": 1000}

    assert "c.csv has 0 rows for node 1; expected one for each node" in refused(
        files, network={"latency": latency}
    )


def test_a_place_off_the_globe_is_refused(refused):
    files = {"c.csv": lines("node,latitude,longitude", *[f"{k},91,0" for k in range(12)])}
    latency = {"law": "geographic", "coordinates": "c.csv", "speed_km": 1000}

    assert "node 0 is at latitude 91, longitude 0" in refused(files, network={"latency": latency})


def test_a_trace_that_is_shorter_than_the_run_is_refused_before_it_starts(refused):
    latency = {"law": "trace", "path": "t.txt", "order": "sequence", "end": "refuse"}

    message = refused({"t.txt": lines(0.1, 0.2)}, network={"latency": latency})
    assert (
        "network.latency: t.txt has 2 times, but a node has 18 messages; write end: repeat or end: hold"
        in message
    )


def test_a_trace_of_computation_times_is_counted_too(refused):
    time = {"law": "trace", "path": "t.txt", "order": "sequence", "end": "refuse"}

    message = refused({"t.txt": lines(0.1)}, network={"compute": {"time": time}})
    assert "network.compute.time: t.txt has 1 times, but a node has" in message


NETWORKS = {
    "rate": (
        {"bandwidth": {"up": 0}},
        "network.bandwidth.up: found 0, must be greater than or equal to 0.001",
    ),
    "window": ({"partitions": [{"from": 3, "until": 2, "parts": 2}]}, "the window ends at 2; swap them"),
    "no groups": ({"partitions": [{"from": 0, "until": 2}]}, "requires either groups"),
    "twice": (
        {"partitions": [{"from": 0, "until": 2, "groups": [[1], [1]]}]},
        "found node 1 twice",
    ),
    "node": (
        {"partitions": [{"from": 0, "until": 2, "groups": [[12]]}]},
        "found node 12, but node ids range from 0 to",
    ),
    "certain loss": ({"loss": 1}, "network.loss: found 1, must be less than 1"),
}


@pytest.mark.parametrize(("network", "message"), NETWORKS.values(), ids=NETWORKS)
def test_a_bad_network_is_refused(refused, network, message):
    assert message in refused(network=network)


def test_rates_for_another_number_of_nodes_are_refused(refused):
    bandwidth = {"up": {"law": "file", "path": "r.txt"}}

    assert "r.txt has 2 rates; expected one for each of 12 nodes" in refused(
        {"r.txt": lines(5, 5)}, network={"bandwidth": bandwidth}
    )


EXPONENTIAL = {"law": "exponential", "mean": 1}
CHURNS = {
    "all leave": (
        {"leave": {"nodes": "all", "at": 2}},
        "all 12 nodes are permanently offline from time 2, but the run",
    ),
    "never two": (
        {"join": {"nodes": list(range(1, 12)), "at": 1e5}},
        "no more than 1 of 12 nodes are online at the same time",
    ),
    "leave before joining": (
        {"join": {"nodes": [1], "at": 3}, "leave": {"nodes": [1], "at": 2}},
        "node 1 leaves at 2, but joins only at 3",
    ),
    "unknown node": ({"leave": {"nodes": [12], "at": 2}}, "churn.leave.0.nodes.0: found node 12"),
    "twice": (
        {"sessions": [{"online": EXPONENTIAL, "offline": EXPONENTIAL}] * 2},
        "churn.sessions.1: node 0 already has sessions from an earlier entry",
    ),
    "no time": (
        {"sessions": {"online": {"law": "constant", "value": 0}, "offline": EXPONENTIAL}},
        "found online of length 0",
    ),
    "countless": (
        {
            "sessions": {
                "online": {"law": "exponential", "mean": 1e-9},
                "offline": {"law": "exponential", "mean": 1e-9},
            }
        },
        "use longer sessions or a shorter run",
    ),
    "night": (
        {"sessions": {"period": 1, "offline_from": 0.5, "offline_until": 0.2}},
        "must be 0 <= from < until",
    ),
    "no trace": (
        {"sessions": {"trace": "nowhere.csv"}},
        "churn.sessions.0.trace: nowhere.csv: no such file in",
    ),
}


@pytest.mark.parametrize(("churn", "message"), CHURNS.values(), ids=CHURNS)
def test_impossible_churn_is_refused(refused, churn, message):
    assert message in refused(churn=churn)


SESSION_FILES = {
    "header": ("who,when\n1,2\n", "has the header 'who,when'; expected node,time,online or node,from,until"),
    "node": ("node,time,online\n12,2,1\n", "found node 12; expected 0 to 11"),
    "state": ("node,time,online\n1,2,7\n2,90,0\n", "online must be 0 or 1"),
    "overlap": ("node,from,until\n1,0,5\n1,4,90\n", "sessions must end after they begin and not overlap"),
    "short": ("node,from,until\n1,0,0.5\n", "s.csv ends at 0.5, but the run lasts until"),
    "cells": ("node,from,until\n1,0\n", "s.csv: line 2: found 2 columns; expected 3 (node, from, until)"),
}


@pytest.mark.parametrize(("content", "message"), SESSION_FILES.values(), ids=SESSION_FILES)
def test_a_bad_file_of_sessions_is_refused(refused, content, message):
    assert message in refused({"s.csv": content}, churn={"sessions": {"trace": "s.csv"}})
