"""What MLflow keeps of a run."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from gossiprec.trackers import TRACKERS
from gossiprec.trackers.mlflow import MAX_METRICS, MAX_PARAM_LENGTH, MAX_PARAMS

# Importing MLflow takes seconds; the workers that run other tests need not do it.
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not (find_spec("mlflow") and find_spec("sqlalchemy")), reason="needs mlflow and sqlalchemy"
    ),
]
SCENARIO = {"name": "tiny", "observers": [{"momentum": 0.9}], "policies": [], "recommender": None}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Return a client of a store in a file of its own, to which the environment points."""
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        patch.setenv("MLFLOW_EXPERIMENT_NAME", "tried")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("MLFLOW_LOGGING_LEVEL", "WARNING")
        patch.chdir(folder)
        from mlflow.tracking import MlflowClient

        yield MlflowClient()


def runs(client):
    experiment = client.get_experiment_by_name("tried").experiment_id
    return client.search_runs([experiment], order_by=["start_time ASC"])


def report(tracker, *rounds):
    for each in rounds:
        tracker.report({"metrics/hr@20": each / 8}, round=each, time=each / 2)


def test_curves_and_settings_are_in_one_run_of_mlflow_also_after_resuming(client, tmp_path):
    folder = tmp_path / "it's 5 %"  # what no search may stumble over
    begun = TRACKERS["mlflow"](folder, SCENARIO, name="fanout=3, seed 1", resumed=False)
    report(begun, 1, 2)
    (running,) = runs(client)
    assert running.info.status == "RUNNING"
    begun.end("interrupted")
    assert [run.info.status for run in runs(client)] == ["KILLED"]

    resumed = TRACKERS["mlflow"](folder, SCENARIO, name="fanout=3, seed 1", resumed=True)
    report(resumed, 3)
    resumed.end("complete")
    TRACKERS["mlflow"](tmp_path / "other", SCENARIO, name="fanout=3, seed 1", resumed=False).end("failed")

    run, other = runs(client)
    assert (run.info.run_name, run.info.status, other.info.status) == (
        "fanout=3, seed 1",
        "FINISHED",
        "FAILED",
    )
    points = client.get_metric_history(run.info.run_id, "metrics/hr_at_20")
    assert [(point.step, point.value) for point in points] == [(1, 0.125), (2, 0.25), (3, 0.375)]
    assert run.data.metrics["virtual time"] == 1.5
    assert run.data.params == {
        "name": "tiny", "observers.0.momentum": "0.9", "policies": "[]", "recommender": "None",
    }  # fmt: skip
    assert run.data.tags["gossiprec.run"] == str(folder)


def test_more_values_than_mlflow_takes_at_a_time_are_all_there(client, tmp_path):
    tracker = TRACKERS["mlflow"](tmp_path, {"many": list(range(230))}, name="run", resumed=False)
    tracker.report({f"metrics/{n}%": n / 2 for n in range(1100)}, round=1, time=1.0)
    tracker.end("complete")
    data = runs(client)[-1].data
    assert (len(data.params), len(data.metrics)) == (230, 1101)
    assert data.metrics["metrics/7pct"] == 3.5


def test_no_more_is_sent_at_a_time_than_servers_of_mlflow_take(client):
    from mlflow.utils import validation

    assert MAX_METRICS <= validation.MAX_METRICS_PER_BATCH
    assert MAX_PARAMS <= validation.MAX_PARAMS_TAGS_PER_BATCH
    assert MAX_PARAM_LENGTH <= validation.MAX_PARAM_VAL_LENGTH


def test_several_runs_may_begin_at_once_when_all_is_prepared(client, tmp_path, monkeypatch):
    TRACKERS["mlflow"].prepare()
    monkeypatch.setattr(type(client), "create_experiment", None)
    TRACKERS["mlflow"](tmp_path, SCENARIO, name="fanout=2, seed 7", resumed=False).end("complete")
    assert runs(client)[-1].info.run_name == "fanout=2, seed 7"
