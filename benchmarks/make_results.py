"""The results of scenarios by one tree, made in one process that :mod:`same_bytes` starts.

    python -P make_results.py NAME ...

Reads ``NAME.json`` in the working folder: ``scenario``; ``trackers``; ``until``, the virtual time at which the run is
interrupted and resumed, or null; ``commands`` on the finished run. The result is the folder ``NAME``:

- ``run``: the run directory.
- ``models.npz``: the last models of the first nodes and of the coordinator, of a run that was not interrupted.
- ``mlflow.txt``: the curves in MLflow; its settings are those of ``scenario.yaml``, of which the form may change.
- ``COMMAND.txt`` or ``COMMAND.json``: the output of each command.

Then ``NAME.seconds`` is written, or ``NAME.failure`` with the error. Imports nothing else from this folder: the package
that it calls may be older.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

MOST_NODES = 24
"""Number of nodes of which the models are kept."""


def make_run(name: str, plan: dict[str, Any]) -> None:
    """Run the scenario, and keep its last models."""
    import gossiprec

    path = Path(name, "run")
    with gossiprec.prepare(plan["scenario"], out=path, track=plan["trackers"]) as live:
        if plan["until"] is None:
            summary = live.finish().summary or {}
            nodes = [*range(min(summary["nodes"], MOST_NODES))]
            nodes += [summary["coordinator"]] if "coordinator" in summary else []
            blocks: dict[str, Any] = {
                f"{node}/{block}": values for node in nodes for block, values in live.model(node).items()
            }
            np.savez(Path(name, "models.npz"), **blocks)
        else:
            live.until(plan["until"])
    if plan["until"] is not None:
        gossiprec.resume(path, track=plan["trackers"])


def mlflow_lines() -> Iterator[str]:
    """Yield the curves of the only run in MLflow, without times and ids."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    (run,) = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    yield f"status {run.info.status}"
    for key in sorted(run.data.metrics):
        points = client.get_metric_history(run.info.run_id, key)
        yield from (f"{key} at {point.step}: {point.value!r}" for point in points)


def run_command(name: str, words: list[str]) -> None:
    """Run a command of the same package, and keep its output.

    Raises
    ------
    RuntimeError
        If the command fails, with its errors.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gossiprec", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"gossiprec {' '.join(words)} left with {done.returncode}: {done.stderr}")
    suffix = "json" if "--json" in words else "txt"
    Path(name, f"{words[0]}.{suffix}").write_text(done.stdout)


def make_result(name: str) -> None:
    """Make the folder of a result."""
    plan = json.loads(Path(f"{name}.json").read_text())
    shutil.rmtree(name, ignore_errors=True)
    Path(name).mkdir()
    Path(f"{name}.mlflow").unlink(missing_ok=True)
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{name}.mlflow"
    make_run(name, plan)
    if "mlflow" in plan["trackers"]:
        Path(name, "mlflow.txt").write_text("\n".join(mlflow_lines()) + "\n")
    for words in plan["commands"]:
        run_command(name, words)


def main() -> None:
    """Make each result; a failure leaves the others as they are."""
    for name in sys.argv[1:]:
        begin = time.perf_counter()
        try:
            make_result(name)
        except Exception:
            Path(f"{name}.failure").write_text(traceback.format_exc())
            said = "failed"
        else:
            said = f"{time.perf_counter() - begin:.2f} s"
            Path(f"{name}.seconds").write_text(said.removesuffix(" s"))
        print(f"  {name}: {said}", flush=True)


if __name__ == "__main__":
    main()
