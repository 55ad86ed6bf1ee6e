"""What nodes of gossip begin with."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.emulation import prepare
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny

JUDGED = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}}


@pytest.mark.parametrize("name", ["rand-gossip", "pers-gossip"])
@pytest.mark.parametrize("table", ["own", "averaged"])
def test_nodes_begin_alike_or_each_with_a_draw_of_its_own(name, table):
    def first(**options):
        protocol = {"name": name, "view": {"size": 3}, "wakes": 2, "user_table": table, **options}
        prepared = prepare(load_scenario(tiny(protocol=protocol, dataset=JUDGED)))
        layout = prepared.executor.work.layout
        rows = prepared.executor.work.arena.rows[:12]
        return rows[:, layout.users], rows[:, layout.items.start : layout.shared.stop]

    (users, common), (others, own) = first(), first(start="own")
    np.testing.assert_array_equal(users, others)
    assert len(np.unique(common, axis=0)) == 1
    assert len(np.unique(own, axis=0)) == 12
    np.testing.assert_array_equal(own[0], common[0])
    assert np.allclose(own.std(), common.std(), rtol=0.1)
