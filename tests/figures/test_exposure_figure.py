"""The figure of the fraction of others met."""

import numpy as np
import pytest
from small_runs import VIEWS, lines, write_run

from gossiprec.base.errors import LogError
from gossiprec.figures import exposure, node_values
from gossiprec.runs import RunDirectory, open_run


def test_meetings_are_counted_as_worked_by_hand(tmp_path):
    found = exposure.contact_curve(write_run(tmp_path / "run"), n_points=5)
    assert found.time.tolist() == [0, 1, 2, 3, 4]
    # node 1 meets both others at 1, node 0 meets one of two at 4
    assert found.mean == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 1 / 2])
    assert found.low == pytest.approx(np.array([0, 0, 0, 0, 0.1]))
    assert found.high == pytest.approx(np.array([0, 0.8, 0.8, 0.8, 0.9]))


def test_the_prediction_follows_from_the_views_drawn(tmp_path):
    found = exposure.contact_curve(write_run(tmp_path / "run"), n_points=5)
    assert found.views == pytest.approx([0, 2 / 3, 1, 1, 4 / 3])
    assert found.predicted == pytest.approx(1 - np.exp(-found.views / 2))


def test_the_table_holds_what_was_measured(tmp_path):
    exposure.draw([write_run(tmp_path / "run")], tmp_path / "exposure")
    table = lines(tmp_path / "exposure.csv")
    assert table[0] == "run,time,views,mean,p10,p90,predicted"
    assert table[1] == "run,0.0,0.0,0.0,0.0,0.0,0.0"
    assert len(table) == 1 + node_values.N_POINTS
    assert table[-1].startswith("run,4.0,1.3333333333333333,0.5,0.1,0.9,0.486582880967")


def test_an_interrupted_run_counts_its_nodes_by_their_ids(tmp_path):
    found = exposure.contact_curve(write_run(tmp_path / "run", status="interrupted"), n_points=2)
    assert found.mean == pytest.approx([0, 1 / 2])


def test_a_log_without_views_has_no_prediction(tmp_path):
    directory = RunDirectory.create(tmp_path / "star", scenario={"name": "star"}, seed=1)
    message = {
        "time": [1.0],
        "sender": [0],
        "receiver": [1],
        "sent_at": [1.0],
        "size_bytes": [8],
        "queued": [0.0],
    }
    directory.log.append("message", message)
    directory.finish("complete")
    exposure.draw([open_run(tmp_path / "star")], tmp_path / "exposure")
    assert lines(tmp_path / "exposure.csv")[-1] == "star,1.0,,0.5,0.1,0.9,"


def star_run(folder, messages, **summary):
    """Write a run of two nodes and a coordinator, node 2, with messages given as (time, sender, receiver)."""
    directory = RunDirectory.create(folder, scenario={"name": "star"}, seed=1)
    time, sender, receiver = zip(*messages, strict=True)
    rest = {"sent_at": time, "size_bytes": [8] * len(time), "queued": [0.0] * len(time)}
    directory.log.append("message", {"time": time, "sender": sender, "receiver": receiver, **rest})
    directory.write_summary({"nodes": 2, **summary})
    directory.finish("complete")
    return open_run(folder)


def test_a_coordinator_is_nobody_to_meet(tmp_path):
    around = [(1.0, 2, 0), (1.0, 2, 1), (1.5, 0, 2), (1.5, 1, 2)]
    with pytest.raises(
        LogError, match="nodes receive models only from the coordinator, so there are no contacts"
    ):
        exposure.contact_curve(star_run(tmp_path / "star", around, coordinator=2))
    both = star_run(tmp_path / "both", [*around, (2.0, 0, 1)], coordinator=2)
    assert exposure.contact_curve(both, n_points=2).mean.tolist() == [0.0, 0.5]


def test_only_the_peers_sent_to_count_in_the_prediction(tmp_path):
    directory = RunDirectory.create(
        tmp_path / "run", scenario={"protocol": {"fanout": 1}}, seed=1, sizes={"view_size": 2}
    )
    directory.log.append("view", {**VIEWS, "peers": [[1, 2], [1, 0], [1, 2], [0, 1]]})
    message = {
        "time": [4.0],
        "sender": [0],
        "receiver": [2],
        "sent_at": [4.0],
        "size_bytes": [8],
        "queued": [0.0],
    }
    directory.log.append("message", message)
    directory.finish("complete")
    found = exposure.contact_curve(open_run(tmp_path / "run"), n_points=2)
    assert found.predicted[-1] == pytest.approx(1 - np.exp(-1 * (4 / 3) / 2))


def test_a_run_in_which_nobody_spoke_is_refused(tmp_path):
    with pytest.raises(LogError, match=r"no message was delivered in .*silent"):
        exposure.draw([write_run(tmp_path / "silent", with_log=False)], tmp_path / "exposure")
