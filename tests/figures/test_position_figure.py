"""The figure of leakage by position."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from small_runs import write_run

from gossiprec.base.errors import LogError
from gossiprec.figures import position
from gossiprec.figures.attack_selection import AttackSelection
from gossiprec.figures.node_values import group_by_position
from gossiprec.runs import RunDirectory, open_run


def drawn(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def placed_run(path, **measures):
    """Return a run of which only positions are known; values are by node."""
    directory = RunDirectory.create(path, scenario={"name": path.name}, seed=1)
    directory.write_positions(
        {
            "node": [node for values in measures.values() for node in values],
            "measure": [name for name, values in measures.items() for _ in values],
            "value": [float(value) for values in measures.values() for value in values.values()],
        }
    )
    directory.finish("complete")
    return open_run(path)


def test_the_table_holds_nodes_means_and_the_correlation(tmp_path):
    position.draw([write_run(tmp_path / "run")], tmp_path / "f")
    rows = drawn(tmp_path / "f.csv")
    assert {row["measure"] for row in rows} == {"betweenness"}
    found = [row for row in rows if row["quantity"] == "found"]
    nodes = [
        (int(row["node"]), float(row["position"]), float(row["value"]))
        for row in found
        if row["kind"] == "node"
    ]
    assert nodes == [(0, 0.0, 1.0), (1, 0.1, 0.5), (2, 0.2, 0.6), (3, 0.7, 0.0)]
    (rho,) = [row for row in found if row["kind"] == "rho"]
    assert float(rho["value"]) == pytest.approx(spearmanr([0, 0.1, 0.2, 0.7], [1, 0.5, 0.6, 0]).statistic)
    assert rho["nodes"] == "4"
    means = [
        (float(row["position"]), float(row["value"]), row["low"]) for row in found if row["kind"] == "mean"
    ]
    assert means == [(0.0, 1.0, ""), (0.1, 0.5, ""), (0.2, 0.6, ""), (0.7, 0.0, "")]  # one node: no interval


def test_positions_that_differ_by_rounding_are_one_and_have_no_correlation(tmp_path):
    """As of the betweenness of nodes on a ring, or of accuracies summed in another order."""
    equal = {0: 0.3, 1: 0.1 + 0.2, 2: 0.3, 3: 0.1 + 0.2}
    found = {"found[single/ndcg/b0.9/k4]": {0: 0.1, 1: 0.5, 2: 0.2, 3: 0.4}}
    position.draw([placed_run(tmp_path / "run", betweenness=equal, **found)], tmp_path / "f")
    rows = drawn(tmp_path / "f.csv")
    assert [row["value"] for row in rows if row["kind"] == "rho"] == [""]
    assert len([row for row in rows if row["kind"] == "mean"]) == 1
    (group,) = group_by_position(np.array([*equal.values()]), np.arange(4.0))
    assert group.nodes == 4


def test_nodes_of_one_position_are_one_group_with_an_interval():
    two, one = group_by_position(np.array([2.0, 5.0, 2.0, 2.0]), np.array([0.1, 0.9, 0.3, 0.5]))
    error = 1.96 * 0.2 / np.sqrt(3)
    assert (two.position, two.nodes, two.mean) == (2.0, 3, pytest.approx(0.3))
    assert (two.low, two.high) == (pytest.approx(0.3 - error), pytest.approx(0.3 + error))
    assert (one.position, one.nodes, one.mean) == (5.0, 1, 0.9)
    assert np.isnan(one.low)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 8))
def test_groups_part_the_nodes_by_position(values, most):
    at = np.array(values, float)
    found = group_by_position(at, at, most=most)
    assert sum(group.nodes for group in found) == len(at)
    assert len(found) <= max(most, 1)
    assert [group.position for group in found] == sorted({group.position for group in found})
    assert [group.mean for group in found] == pytest.approx([group.position for group in found])


def test_many_positions_make_groups_of_about_equal_size():
    at = np.random.default_rng(1).random(800)
    assert {group.nodes for group in group_by_position(at, at)} == {100}


def test_a_distance_is_that_to_the_attacks_own_coalition(tmp_path):
    everyone = range(4)
    measures = {
        "in_contacts": dict.fromkeys(everyone, 2),
        "distance[a]": dict(zip(everyone, (0, 1, 2, 3), strict=True)),
        "distance[b]": dict(zip(everyone, (3, 2, 1, 0), strict=True)),
        "found[single/ndcg/b0.9/k4]": dict.fromkeys(everyone, 0.5),
    }
    for observer, member in (("a", 0), ("b", 3)):
        measures[f"accuracy[{observer}/ndcg/b0.9/k4]"] = {member: 0.5}
        measures[f"found[{observer}/ndcg/b0.9/k4]"] = dict(zip(everyone, (0.4, 0.3, 0.2, 0.1), strict=True))
    run = placed_run(tmp_path / "run", **measures)
    position.draw([run], tmp_path / "f", measures=["distance"])
    rows = drawn(tmp_path / "f.csv")
    rhos = {(row["observer"], row["measure"]): float(row["value"]) for row in rows if row["kind"] == "rho"}
    assert rhos == {("a", "distance[a]"): pytest.approx(-1), ("b", "distance[b]"): pytest.approx(1)}
    assert {row["quantity"] for row in rows} == {"found"}
    with pytest.raises(LogError, match="none of the attacks shown has the measure distance"):
        position.draw(
            [run], tmp_path / "f", measures=["distance"], selection=AttackSelection(observers=("single",))
        )


def test_only_nodes_with_both_numbers_count_and_a_constant_has_no_correlation(tmp_path):
    key = "single/ndcg/b0.9/k4"
    measures = {
        "in_contacts": {0: 2, 1: 2, 2: 2},
        f"accuracy[{key}]": {1: 0.5},
        f"found[{key}]": {0: 0.1, 2: 0.3},
    }
    position.draw([placed_run(tmp_path / "run", **measures)], tmp_path / "f")
    rows = drawn(tmp_path / "f.csv")
    nodes = [(row["quantity"], int(row["node"])) for row in rows if row["kind"] == "node"]
    assert nodes == [("accuracy", 1), ("found", 0), ("found", 2)]
    assert [row["value"] for row in rows if row["kind"] == "rho"] == ["", ""]


def test_a_measure_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    run = write_run(tmp_path / "run")
    with pytest.raises(
        LogError, match=r"found no measure 'closeness' in run; it has: in_contacts, betweenness$"
    ):
        position.draw([run], tmp_path / "f", measures=["closeness"])


def test_a_run_without_positions_is_refused(tmp_path):
    run = write_run(tmp_path / "run", status="interrupted")
    with pytest.raises(
        LogError, match=r"no positions in .*run \(interrupted\): a run writes positions.csv at its end"
    ):
        position.draw([run], tmp_path / "f")


def test_a_run_without_attacks_is_refused(tmp_path):
    run = placed_run(tmp_path / "run", in_contacts={0: 1.0})
    with pytest.raises(LogError, match="no attack results"):
        position.draw([run], tmp_path / "f")
