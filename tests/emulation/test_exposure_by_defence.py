"""Exposure of those who defend, and of those who do not."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_runs import tiny

from gossiprec import simulate


def attacks_of(tmp_path, name, policies):
    return simulate(tiny(policies=policies), out=tmp_path / name)


@pytest.mark.slow
def test_exposure_is_the_mean_over_each_group_of_what_positions_say(tmp_path):
    run = attacks_of(tmp_path, "some", [{"name": "share-less", "nodes": [0, 2, 5]}])
    attack = run.summary["attacks"][0]
    rows = run.positions
    key = next(name for name in dict.fromkeys(rows["measure"]) if name.startswith("found["))
    mine = rows["measure"] == key
    nodes, values = rows["node"][mine], rows["value"][mine]
    defends = np.isin(nodes, [0, 2, 5])

    np.testing.assert_allclose(attack["exposure_defended"], values[defends].mean())
    np.testing.assert_allclose(attack["exposure_undefended"], values[~defends].mean())


@pytest.mark.slow
def test_a_group_without_users_has_no_exposure(tmp_path):
    nobody = attacks_of(tmp_path, "nobody", []).summary["attacks"][0]
    everyone = attacks_of(tmp_path, "all", [{"name": "share-less", "nodes": "all"}]).summary["attacks"][0]

    assert nobody["exposure_defended"] is None
    assert nobody["exposure_undefended"] is not None
    assert everyone["exposure_undefended"] is None
