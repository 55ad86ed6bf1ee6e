"""The examples of docs/topologies.md, as they stand (in a process of their own: they register themselves)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gossiprec.network.overlay.views import StaticViewOptions

PAGE = (Path(__file__).parents[2] / "docs" / "topologies.md").read_text()
BEFORE = "import gossiprec.network.graphs.families as registry\n"
RUN = """
import numpy as np
from gossiprec.network.overlay import ExchangeView
from gossiprec.network.overlay import OverlayContext
from gossiprec.network.sim.availability import Availability
found = registry.FAMILIES["caves"].graph({"n": 15}, {})
assert found.number_of_edges() == 30, found.number_of_edges()
from gossiprec.testing import check_sampling, check_topology
check_topology(registry.FAMILIES["caves"], n_nodes=15)
options = Wander.Options(sampling="wander", size=4)
views = SAMPLINGS["wander"](options, OverlayContext(20, 2, 1, Availability.always_online(20)))
sent = [list(views.next_receivers(node, float(wake))) for wake in range(10) for node in range(20)]
assert all(node not in views.views[node] for node in range(20))
assert len({tuple(to) for to in sent}) > 100
check_sampling(Wander)
"""


@pytest.mark.slow
@pytest.mark.full
def test_its_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    code = BEFORE + "\n".join([*blocks, RUN]).replace("from __future__ import annotations\n", "")

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_its_sequence_is_one():
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    found = StaticViewOptions.model_validate(yaml.safe_load(block)["view"])

    assert [graph.start for graph in found.graph.sequence] == [0, 50, 80]


def test_every_family_and_frozen_graph_is_named():
    from gossiprec.network import graphs

    for name in (*graphs.FAMILIES, *graphs.frozen_names()):
        assert f"`{name}`" in PAGE
