"""``gossiprec topology``, by the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from calls import call_each, invoke

from gossiprec.network import graphs

WORLD = {
    "name": "toy",
    "dataset": {
        "name": "synthetic", "users": 24, "items": 60, "interactions": 600,
        "split": {"name": "leave_last_k", "test": 5, "validation": 0},
    },
    "model": {"name": "gmf", "dim": 8},
    "evaluate": {"every": 2, "metrics": ["hr@5"]},
    "plots": False,
}  # fmt: skip


@pytest.fixture
def scenario(tmp_path):
    """Return a function that writes a scenario with some protocol."""

    def write(view=None, **protocol):
        rand = {"name": "rand-gossip", "fanout": 2, "view": view, "wakes": 10}
        (tmp_path / "toy.yaml").write_text(yaml.safe_dump({**WORLD, "protocol": protocol or rand}))
        return tmp_path / "toy.yaml"

    return write


def facts(capsys, *arguments):
    code, out, err = invoke(capsys, "topology", "inspect", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_list_names_every_family_with_its_options_and_every_frozen_graph(capsys):
    code, out, _ = invoke(capsys, "topology", "list")
    _, as_json, _ = invoke(capsys, "topology", "list", "--json")

    assert code == 0
    for name, family in graphs.FAMILIES.members():
        assert f"  {name} " in out
        assert all(option.meaning in out for option in family.options.values())
    assert all(name in out for name in graphs.frozen_names())
    assert json.loads(as_json)["families"]["ring"]["options"]["k"]["default"] == 2


@pytest.mark.parametrize("suffix", [".graphml", ".edges", ".json"])
def test_make_writes_the_graph_that_a_scenario_of_the_seed_has(suffix, capsys, tmp_path, scenario):
    out = tmp_path / f"g{suffix}"
    code, said, _ = invoke(
        capsys, "topology", "make", "random-regular", "--nodes", 24, "--set", "degree=4", "--seed", 1, "--out", out
    )  # fmt: skip
    assert (code, said) == (0, f"{out}: 24 nodes, 48 links\n")

    run = scenario({"graph": {"family": "random-regular", "degree": 4}})
    (of_file,), (of_run,) = facts(capsys, out), facts(capsys, run, "--fanout", 9)
    assert of_file["colluders"] == of_run["colluders"]
    assert {**of_file, "name": "", "fanout": 2} == {
        **of_run,
        "name": "",
        "wakes_to_meet": of_file["wakes_to_meet"],
    }


def test_make_converts_a_file_and_keeps_an_old_one_unless_told(capsys, tmp_path):
    first, second = tmp_path / "a.edges", tmp_path / "b.graphml"
    invoke(capsys, "topology", "make", "karate-club", "--out", first)
    assert invoke(capsys, "topology", "make", first, "--out", second)[0] == 0
    assert sorted(graphs.read_graph(second).edges) == sorted(graphs.frozen_graph("karate-club").edges)

    code, _, err = invoke(capsys, "topology", "make", "florentine-families", "--out", first)
    assert code == 2
    assert f"{first} exists; choose another name, or pass --overwrite" in err
    assert invoke(capsys, "topology", "make", "florentine-families", "--out", first, "--overwrite")[0] == 0
    assert len(graphs.read_graph(first)) == 15


def test_inspect_tells_what_is_known_of_a_ring(capsys):
    """Of 12 nodes: every second one sees every link, and the eigenvalues are cos(2 pi k / 12)."""
    (ring,) = facts(capsys, "ring", "--nodes", 12, "--fraction", 0.1)

    assert ring["diameter"] == 6
    assert ring["average_distance"] == pytest.approx(36 / 11)
    assert ring["colluders"] == [0, 2, 4, 6, 8, 10]
    assert ring["cover_bound"] == 8.0
    assert ring["spectral_gap"] == pytest.approx(0, abs=1e-12)  # bipartite
    assert ring["lazy_spectral_gap"] == pytest.approx((1 - np.cos(np.pi / 6)) / 2)
    assert ring["can_meet"] == pytest.approx(2 / 11)
    assert ring["wakes_to_meet"] == pytest.approx(-np.log(1 - 0.1 * 11 / 2))  # both neighbours at rate 1


def test_what_cannot_be_met_is_said(capsys):
    code, out, _ = invoke(capsys, "topology", "inspect", "karate-club", "--fraction", 0.5)

    assert code == 0
    assert "50 % of the other nodes: never" in out
    assert "14 suffice: 0, 1, 2, 3," in out


def test_options_may_stand_beside_the_name(capsys):
    by_name = facts(capsys, "watts-strogatz:k=6,p=0.3", "--nodes", 30)
    by_set = facts(capsys, "watts-strogatz", "--nodes", 30, "--set", "k=6", "--set", "p=0.3")

    assert [{**one, "name": ""} for one in by_name] == [{**one, "name": ""} for one in by_set]


def test_compare_prints_one_line_for_each(capsys):
    code, out, _ = invoke(capsys, "topology", "compare", "ring:k=4", "torus", "karate-club", "--nodes", 25)
    lines = out.splitlines()

    assert code == 0
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["ring:k=4", "25"],
        ["torus", "25"],
        ["karate-club", "34"],
    ]
    assert lines[0].split()[:3] == ["nodes", "links", "degree"]
    assert {len(line) for line in lines[:4]} == {len(lines[0])}


def test_a_scenario_of_random_views_is_told_by_its_prediction(capsys, scenario):
    """2 of 3 peers a wake from a fresh view at each: 1 - exp(-2 V / 23) after V wakes."""
    (found,) = facts(capsys, scenario({"size": 3, "refresh": {"every": 1}}), "--fraction", 0.3)

    assert "links" not in found
    assert found["wakes_to_meet"] == pytest.approx(-23 / 2 * np.log(0.7), rel=1e-6)
    assert found["can_meet"] == pytest.approx(1 - np.exp(-2 * 10 / 23))


def test_a_sequence_is_told_graph_by_graph(capsys, scenario):
    view = {"graph": {"sequence": [{"from": 0, "family": "ring"}, {"from": 5, "frozen": "small-world-24"}]}}
    ring, world = facts(capsys, scenario(view))

    assert (ring["name"], ring["links"]) == ("toy from 0", 24)
    assert (world["name"], world["links"]) == ("toy from 5", 48)


def test_views_that_are_exchanged_are_played_and_shown_as_they_end(capsys, scenario):
    (found,) = facts(capsys, scenario({"sampling": "cyclon", "size": 4, "shuffle": 2}), "--fraction", 0.2)

    assert found["name"] == "toy (cyclon)"
    assert (found["directed"], found["links"], found["degree_mean"]) == (True, 96, 4.0)
    assert 0.3 < found["can_meet"] < 1 - np.exp(-20 / 23) + 0.15
    assert 0 < found["wakes_to_meet"] < 10


def test_the_star_of_federated_learning_has_the_coordinator_in_its_middle(capsys, scenario):
    (found,) = facts(capsys, scenario(name="fedavg", rounds=3))

    assert (found["nodes"], found["colluders"]) == (25, [24])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rign",), "unknown topology 'rign'; did you mean 'ring'?"),
        (("rign:k=4",), "unknown topology 'rign:k=4'; did you mean 'ring'?"),
        (("karate",), "did you mean 'karate-club'?"),
        (("ring",), "pass --nodes N"),
        (
            ("ring", "--nodes", 10, "--set", "kk=4"),
            "ring: kk: unknown key; did you mean 'k'? (known: family, k)",
        ),
        (("ring", "--nodes", 10, "--set", "k=four"), "ring: k: found 'four', must be a whole number"),
        (("ring", "--nodes", 10, "--set", "k=true"), "k: found true, must be"),
        (("ring", "--nodes", 10, "--set", "k"), "expected key.path=value"),
        (("ring:k=3", "--nodes", 10), "found k = 3; expected an even number"),
        (("torus", "--nodes", 7), "use 9 nodes"),
        (("nearest-by-taste", "--nodes", 7), "use it in a scenario with a data set"),
        (("nowhere.edges",), "nowhere.edges: no such file"),
        (("nowhere.yaml",), "nowhere.yaml: no such file"),
        (("ring", "--nodes", 0), "--nodes"),
        (("ring", "--nodes", 10, "--fraction", 1.5), "--fraction"),
    ],
)
def test_bad_input_ends_in_one_message(arguments, message, capsys):
    code, out, err = invoke(capsys, "topology", "inspect", *arguments)

    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_a_scenario_takes_no_options_of_families(capsys, scenario):
    code, _, err = invoke(capsys, "topology", "inspect", scenario({"size": 3}), "--nodes", 9)

    assert code == 2
    assert "a scenario defines both" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ring", "--nodes", 9, "--out", "g.pdf"), "found suffix '.pdf', must be one of .graphml"),
        (("SEQUENCE", "--out", "g.edges"), "found 2 graphs; expected one graph"),
        (("RANDOM", "--out", "g.edges"), "found no graph; expected one graph"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments, message, capsys, scenario, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    of_each = {
        "SEQUENCE": {"graph": {"sequence": [{"from": 0, "family": "ring"}, {"from": 1, "family": "star"}]}},
        "RANDOM": {"size": 3},
    }
    what = arguments[0]
    path = scenario(of_each[what]) if what in of_each else what
    code, _, err = invoke(capsys, "topology", "make", path, *arguments[1:])

    assert code == 2
    assert message in err


@pytest.mark.slow
def test_draw_writes_table_and_pictures_the_same_every_time(capsys, tmp_path):
    for stem in ("one", "two"):
        code, out, _ = invoke(
            capsys, "topology", "draw", "karate-club", "ring:k=4", "--nodes", 20, "--out", tmp_path / stem
        )
        assert code == 0
        assert out.split() == [str(tmp_path / f"{stem}.{kind}") for kind in ("csv", "png", "svg")]

    for kind in ("csv", "png", "svg"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
    rows = (tmp_path / "one.csv").read_text().splitlines()
    assert rows[0] == "graph,node,x,y,degree,colluder"
    assert len(rows) == 1 + 34 + 20


def test_there_is_nothing_to_draw_of_random_views_or_of_a_blot(capsys, scenario, tmp_path):
    code, _, err = invoke(capsys, "topology", "draw", scenario({"size": 3}), "--out", tmp_path / "f")
    assert (code, "there is no graph to draw" in err) == (2, True)

    code, _, err = invoke(capsys, "topology", "draw", "complete", "--nodes", 300, "--out", tmp_path / "f")
    assert (code, "found 44,850 links in complete, but a figure shows up to 20,000" in err) == (2, True)


VIEWS = {
    "cyclon": {"sampling": "cyclon", "size": 6},
    "newscast": {"sampling": "newscast", "size": 6},
    "descriptors": {"sampling": "descriptors", "size": 6, "rank": "taste"},
    "nearest": {"graph": {"family": "nearest-by-taste", "k": 4}},
    "blocks": {"graph": {"family": "blocks-by-taste", "nearest": 3, "between": 0.2}},
    "frozen": {"graph": {"frozen": "regular-24"}},
    "sequence": {
        "graph": {"sequence": [{"from": 0, "family": "ring"}, {"from": 5, "family": "random-regular"}]}
    },
}


SHORT = (
    "--executor",
    "fused",
    "--quiet",
    "--set",
    "protocol.wakes=6",
    "--set",
    "dataset.interactions=240",
)


def digest(run):
    return json.loads((run / "manifest.json").read_text())["log_digest"]


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.cases(5)
def test_a_run_and_one_from_its_resolved_scenario_have_the_same_log(name, capsys, scenario, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    assert invoke(capsys, "simulate", scenario(VIEWS[name]), "--out", first, *SHORT)[0] == 0
    assert invoke(capsys, "simulate", first / "scenario.yaml", "--out", second, "--quiet")[0] == 0

    assert digest(first) == digest(second)


@pytest.mark.slow
@pytest.mark.full
def test_no_order_of_a_set_decides_who_sends_to_whom(scenario, tmp_path):
    names = ("descriptors", "blocks")
    paths = [scenario(VIEWS[name]).rename(tmp_path / f"{name}.yaml") for name in names]
    for hashing in ("1", "2"):
        commands = [
            ("simulate", path, "--out", tmp_path / f"{path.stem}-{hashing}", *SHORT) for path in paths
        ]
        assert [done.returncode for done in call_each(*commands, PYTHONHASHSEED=hashing)] == [0, 0]

    for name in names:
        assert digest(tmp_path / f"{name}-1") == digest(tmp_path / f"{name}-2")


def test_a_graph_of_another_size_than_the_data_ends_in_one_message(capsys, scenario):
    code, _, err = invoke(capsys, "simulate", scenario({"graph": {"frozen": "karate-club"}}), "--dry-run")

    assert code == 2
    assert "found 34 nodes, but the data have 24 users" in err


def test_a_share_that_no_graph_comes_to_is_answered_with_one_that_all_do(capsys):
    _, out, _ = invoke(capsys, "topology", "compare", "ring", "ring:k=4", "--nodes", 21)
    share = out.split("try --fraction ")[1].rstrip(".\n")
    assert float(share) == 0.09  # nine tenths of 2 / 20
    _, out, _ = invoke(capsys, "topology", "compare", "ring", "ring:k=4", "--nodes", 21, "--fraction", share)
    assert "try --fraction" not in out
