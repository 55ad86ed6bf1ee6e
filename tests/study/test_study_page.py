"""docs/studies.md says what is so."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from small_studies import carried_out

from gossiprec.study.plan import make_plan
from gossiprec.study.spec import COLUMNS, load_study

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "studies.md").read_text()


@pytest.mark.slow
def test_the_study_of_the_page_runs(tmp_path):
    shutil.copy(ROOT / "scenarios" / "smoke.yaml", tmp_path)
    (tmp_path / "studies").mkdir()
    path = tmp_path / "studies" / "fanout.yaml"
    path.write_text(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1].replace("wakes: 20", "wakes: 1"))
    plan = make_plan(load_study(path))
    assert (len(plan.variants), plan.baseline) == (18, {"fanout": 3})
    plan.simulations[:] = plan.simulations[:1]
    plan.variants[:] = plan.variants[:1]
    carried_out(plan, tmp_path / "out")
    rows = (tmp_path / "out" / "table.csv").read_text().splitlines()
    assert [row.split(",")[4] for row in rows[1:]] == ["hr@5", "max_aac"]


def test_the_study_of_the_page_over_several_scenarios_resolves(tmp_path):
    text = next(t for t in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "name: protocols" in t)
    path = tmp_path / "protocols.yaml"
    path.write_text(text.replace("../", f"{ROOT / 'scenarios'}/"))
    told = [
        (v.labels["protocol"], v.scenario.protocol.name, v.seed) for v in make_plan(load_study(path)).variants
    ]
    assert told[::3] == [
        ("gossip", "rand-gossip", 1),
        ("sparse", "rand-gossip", 1),
        ("federated", "fedavg", 1),
    ]


def test_the_columns_of_the_page_are_those_of_the_table():
    assert f"`{', '.join(COLUMNS)}`" in PAGE
