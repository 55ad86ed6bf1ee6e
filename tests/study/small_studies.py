"""Studies of a tiny world, and carrying them out in this process."""

from __future__ import annotations

import yaml

from gossiprec.cli.progress import StudyProgressState
from gossiprec.study.folder import StudyFolder
from gossiprec.study.plan import make_plan
from gossiprec.study.runner import StudyRunner
from gossiprec.study.spec import load_study
from gossiprec.study.task import run_task

SINGLE = {"name": "cda", "who": "single", "community_size": 3, "momentum": 0.9, "reference_items": 9}
COALITION = {**SINGLE, "who": "coalition", "fraction": 0.25}

BASE = {
    "name": "tiny",
    "seed": 5,
    "plots": False,
    "dataset": {
        "name": "synthetic",
        "users": 12,
        "items": 40,
        "interactions": 150,
        "split": {"name": "leave_last_k", "test": 2, "validation": 1},
    },
    "model": {"name": "gmf", "dim": 4},
    "protocol": {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 2},
    "observers": [SINGLE],
    "evaluate": {"every": 1, "metrics": ["hr@5"]},
    "executor": {"name": "reference"},
}
FANOUT = {"fanout": {"key": "protocol.fanout", "values": [1, 2, 3]}}
WHO = {"who": {"key": "observers", "values": {"one": [SINGLE], "some": [COALITION]}}}


def study_file(folder, **keys):
    """Write a study file over the tiny world and return its path."""
    path = folder / "study.yaml"
    path.write_text(
        yaml.safe_dump({"name": "small", "base": BASE, "seeds": 2, "axes": FANOUT, **keys}, sort_keys=False)
    )
    return path


def planned(folder, **keys):
    return make_plan(load_study(study_file(folder, **keys)))


def in_turn(tasks):
    """Carry out tasks here, one after the other."""
    for task in tasks:
        yield run_task(task, threads=1)


def carried_out(plan, path, *, start=in_turn, other_code="refuse"):
    """Carry out what is not finished; return the conduct."""
    folder = StudyFolder(path)
    conduct = StudyRunner(plan, folder)
    with folder.locked(plan.study.name):
        conduct.carry_out(conduct.find_unfinished(stale_runs=other_code), start, StudyProgressState(str))
    return conduct


def tables(path):
    """Return the bytes of both tables."""
    return (path / "table.parquet").read_bytes(), (path / "table.csv").read_bytes()
