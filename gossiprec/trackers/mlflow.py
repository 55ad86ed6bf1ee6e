"""Curves and settings in MLflow, at the address in its environment variables."""

from __future__ import annotations

import os
import re
import time as clock
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossiprec.base.plain_text import flat_items
from gossiprec.trackers import TRACKERS, Tracker

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

EXPERIMENT = "gossiprec"
"""Default name of the experiment, if ``MLFLOW_EXPERIMENT_NAME`` is not set."""
MAX_METRICS, MAX_PARAMS, MAX_PARAM_LENGTH = 1000, 100, 6000
"""MLflow's limits: metrics and params per call, and characters of a param."""
ENDS = {"complete": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
FOLDER = "gossiprec.folder"
"""Tag that identifies the MLflow run of a directory; paths may hold characters that a search cannot."""


@TRACKERS.register("mlflow")
class MLflow(Tracker):
    """Curves over rounds and the scenario's values in MLflow (``MLFLOW_TRACKING_URI``).

    A resumed run continues in its original MLflow run.
    """

    modules = ("mlflow",)

    def __init__(self, run: Path, scenario: Mapping[str, Any], *, name: str, resumed: bool) -> None:
        self._client = _client()
        begun = _begun(self._client, run) if resumed else None
        self._run_id = begun or _new(self._client, run, name, scenario)

    @classmethod
    def prepare(cls) -> None:
        """Create tables and experiment once, because MLflow raises an error if two processes do so in parallel."""
        _experiment(_client())

    def report(self, figures: Mapping[str, float], *, round: int, time: float) -> None:
        """Add a point to each curve."""
        from mlflow.entities import Metric

        now = int(1000 * clock.time())
        points = [
            Metric(mlflow_name(name), value, now, round)
            for name, value in {**figures, "virtual time": time}.items()
        ]
        for some in _parts(points, MAX_METRICS):
            self._client.log_batch(self._run_id, metrics=some)

    def end(self, status: str) -> None:
        """Set the final status."""
        self._client.set_terminated(self._run_id, ENDS[status])


def mlflow_name(name: str) -> str:
    """Return a name in the characters that MLflow accepts: ``hr@20`` is ``hr_at_20``, ``5%`` is ``5pct``."""
    return re.sub(r"[^\w\-. :/]", "_", name.replace("@", "_at_").replace("%", "pct"), flags=re.ASCII)


def _client() -> MlflowClient:
    """Return MLflow's client, with its log output and telemetry off unless they are configured."""
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow.tracking import MlflowClient

    return MlflowClient()


def _experiment(client: MlflowClient) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    found = client.get_experiment_by_name(name)
    return str(found.experiment_id if found else client.create_experiment(name))


def _new(client: MlflowClient, run: Path, name: str, scenario: Mapping[str, Any]) -> str:
    from mlflow.entities import Param

    tags = {"gossiprec.run": str(run.resolve()), FOLDER: _folder(run)}
    run_id = str(client.create_run(_experiment(client), run_name=name, tags=tags).info.run_id)
    values = [Param(mlflow_name(key), str(value)[:MAX_PARAM_LENGTH]) for key, value in flat_items(scenario)]
    for some in _parts(values, MAX_PARAMS):
        client.log_batch(run_id, params=some)
    return run_id


def _begun(client: MlflowClient, run: Path) -> str | None:
    """Return the latest MLflow run of a directory, set to running again, or None."""
    found = client.search_runs(
        [_experiment(client)],
        f"tags.`{FOLDER}` = '{_folder(run)}'",
        order_by=["start_time DESC"],
        max_results=1,
    )
    if not found:
        return None
    client.update_run(found[0].info.run_id, status="RUNNING")
    return str(found[0].info.run_id)


def _folder(run: Path) -> str:
    return uuid.uuid5(uuid.NAMESPACE_URL, run.resolve().as_uri()).hex


def _parts(whole: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (whole[first : first + size] for first in range(0, len(whole), size))
