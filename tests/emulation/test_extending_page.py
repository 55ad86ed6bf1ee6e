"""The examples of docs/extending.md, run as they stand (in a process of their own: they register themselves)."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulation.tiny_runs import SINGLE, tiny

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
IMPORTS = """
from collections.abc import Sequence
import json, sys
import numpy as np
from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.base.arrays import F32
from gossiprec.numerics.relevance import RELEVANCE, _last_if_nan
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.network.protocols.rand_gossip import RandGossip
from gossiprec.emulation import simulate
from gossiprec.testing import check_protocol
from pathlib import Path
"""
OPTIONS = """
from types import SimpleNamespace
options = SimpleNamespace(path=json.__file__)
"""

RUN = """
check_protocol(RingGossip, {"wakes": 5})
check_protocol(Offers, {"wakes": 5})
RELEVANCE["margin"] = margin
scores = margin(np.float32([[1, 2, 4]]), np.float32([[0.5, -1]]))
run = simulate(json.loads(sys.argv[1]), out=sys.argv[2], track=["lines"])
print(json.dumps({"margin": float(scores[0]), "attacks": run.summary["attacks"],
    "findings": run.summary["findings"],
    "curves": (Path(sys.argv[2]) / "lines.jsonl").read_text(),
    "nodes": run.positions["measure"].tolist(),
    "receivers": [run.events("message")[c].tolist() for c in ("sender", "receiver")]}))
"""


@pytest.mark.slow
@pytest.mark.full
def test_its_examples_run(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 4
    named = re.findall(r"\]\(\.\./(examples/[\w/-]+\.py)\)", PAGE.read_text())
    files = [(PAGE.parents[1] / name).read_text() for name in dict.fromkeys(named)]
    assert len(files) == 6
    shown = [text for text in files if text not in "\n".join(blocks)]
    code = "\n".join([IMPORTS, OPTIONS, *blocks, *shown, RUN]).replace(
        "from __future__ import annotations\n", ""
    )
    scenario = tiny(
        protocol={"name": "ring-gossip", "fanout": 1, "view": {"size": 1}, "wakes": 3},
        observers=[
            SINGLE,
            {"name": "last-heard", "community_size": 3},
            {"name": "top-items", "members": [0, 5]},
        ],
    )

    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(scenario), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["margin"] == 0.5
    assert (
        json.loads(said["curves"].splitlines()[-1])["aac/last-heard recency 0 3"]
        == said["attacks"][1]["last_aac"]
    )
    assert [row["observer"] for row in said["attacks"]] == ["single", "last-heard"]
    heard, *guessed = said["findings"]
    assert {row["measure"] for row in guessed} == {"mia_accuracy", "mia_precision", "mia_recall"}
    assert (heard["attack"], heard["measure"], heard["labels"]) == (
        "last-heard",
        "heard",
        {"observer": "last-heard"},
    )
    assert heard["value"] == 1.0  # on a ring
    assert said["nodes"].count("heard[last-heard/last-heard]") == 12
    assert said["attacks"][0]["upper_bound"] == said["attacks"][1]["upper_bound"] > 0
    assert all(receiver == (sender + 1) % 12 for sender, receiver in zip(*said["receivers"], strict=True))
