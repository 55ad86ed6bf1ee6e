"""All that a run with a part from outside must do: executors, a killed run, replay, shards, a study, a report.

:func:`check` runs in a process that finds the package. With `apart`, workers of a study and of Ray must find it, too;
otherwise a study runs in that process, and shards are threads only.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import signal
import traceback

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.cli.main import exit_code
from gossiprec.emulation import replay, resume, simulate
from gossiprec.models import MODELS
from gossiprec.study.api import study
from tests.emulation.ended_early import OFTEN, Patient, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_shards import told

EXECUTORS = ("reference", "batched", "fused")


class Killed(Patient):
    """Kills its own process at a report."""

    def tick(self, status):
        super().tick(status)
        if len(self.ticks) == 4:
            os.kill(os.getpid(), signal.SIGKILL)


def check(scenario, folder, *, apart=False):
    """Check all that a whole run and a killed one must do."""
    begun = os.fork()  # a process of its own, without imports of its own
    if not begun:
        try:
            simulate({"checkpoint": OFTEN, **scenario}, out=folder / "killed", progress=Killed())
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(begun, 0)[1]) == signal.SIGKILL
    whole = simulate(scenario, out=folder / "whole")
    assert outcome(resume(folder / "killed").path) == outcome(whole.path)
    again = replay(whole.path)
    assert again.confirmed, again.difference
    assert again.elsewhere == ()

    kernels = MODELS[scenario["model"]["name"]].kernels()
    for name in {*EXECUTORS[: 2 if kernels is None else 3]} - {scenario["executor"]["name"]}:
        run = simulate({**scenario, "executor": {"name": name, "threads": 1}}, out=folder / name)
        assert (run.path / "positions.csv").exists() == (whole.path / "positions.csv").exists()
        for key in ("inputs", "log_digest"):
            assert run.manifest[key] == whole.manifest[key]
        ours, theirs = run.metrics, whole.metrics
        assert ours["metric"].tolist() == theirs["metric"].tolist()
        rates = np.char.startswith(
            np.asarray(ours["metric"], str), "mia_"
        )  # one guess is more than the tolerance
        for column in ("time", "round", "value"):
            one, other = ours[column][~rates], theirs[column][~rates]
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)

    shards = simulate(divided(scenario, 2), out=folder / "shards", make_shard_group=Threads)
    assert told(shards.path) == told(whole.path)
    if apart and importlib.util.find_spec("ray") is not None:
        local = divided(scenario, 2)
        local["executor"]["address"] = "local"
        assert told(simulate(local, out=folder / "ray").path) == told(whole.path)

    (folder / "scenario.json").write_text(json.dumps(scenario))
    groups = [f"[{group['by']}={group['group']}]" for group in whole.summary.get("groups", [])]
    metrics = scenario["evaluate"]["metrics"]
    measures = [f"{metric}{group}" for metric in metrics for group in ["", *groups]]
    attacks = [attack["name"] for key in ("observers", "adversaries") for attack in scenario.get(key, ())]
    reported = {found["measure"] for found in whole.summary.get("findings", []) if found["value"] is not None}
    announced = dict.fromkeys(measure for name in attacks for measure in ATTACKS[name].measures)
    due = {*measures, *(announced.keys() & reported)}
    measures += announced
    asked = {"name": "both", "base": "scenario.json", "seeds": 1, "measures": measures}
    asked["axes"] = {"loss": {"values": {"none": {}, "some": {"network.loss": 0.2}}}}
    (folder / "study.yaml").write_text(json.dumps(asked))
    if apart:
        command = ["study", str(folder / "study.yaml"), "--out", str(folder / "study"), "--jobs", "1"]
        assert exit_code(command) == 0
    else:
        assert study(folder / "study.yaml", out=folder / "study").status == "complete"
    with (folder / "study" / "table.csv").open() as file:
        assert due <= {row["measure"] for row in csv.DictReader(file) if row["value"]}
    for made in ("whole", "study"):
        assert exit_code(["report", str(folder / made), "--out", str(folder / f"{made}.html")]) == 0
        assert (folder / f"{made}.html").stat().st_size > 10_000
        page = (folder / f"{made}.html").read_text()
        assert all(group[1:-1] in page or group[1:-1].replace("=", " ") in page for group in groups)
