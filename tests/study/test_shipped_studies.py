"""The studies that come with gossiprec."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from small_studies import carried_out

from gossiprec.study.plan import make_plan
from gossiprec.study.spec import load_study
from tests.slow import slow_except_first

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "scenarios" / "studies").glob("*.yaml"))


@pytest.mark.parametrize("path", slow_except_first(SHIPPED), ids=lambda path: path.stem)
@pytest.mark.cases(4)
def test_every_run_of_a_shipped_study_resolves(path):
    study = load_study(path)
    plan = make_plan(study)

    assert study.name == path.stem.replace("_", "-")
    assert len({variant.seed for variant in plan.variants}) == 5


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_study_has_a_page_that_names_it(path):
    page = (ROOT / "docs" / "record" / "studies" / f"{path.stem}.md").read_text()

    assert f"gossiprec study scenarios/studies/{path.name}" in page
    assert f"record/studies/{path.stem}.md" in (ROOT / "docs" / "studies.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
@pytest.mark.full
def test_the_ends_of_a_shipped_study_run(path, tmp_path):
    told = yaml.safe_load(path.read_text())
    base = (path.parent / told["base"]).resolve()
    federated = yaml.safe_load(base.read_text())["protocol"]["name"] == "fedavg"
    fewer = {"dataset.limit_users": 60} if base.stem == "small_gossip" else {}  # of 300
    ends = [{name: list(axis["values"])[end] for name, axis in told["axes"].items()} for end in (0, -1)]
    told |= {
        "base": str(base),
        "set": {**told.get("set", {}), "protocol.rounds" if federated else "protocol.wakes": 1, **fewer},
        "seeds": 1,
        "search": {"method": "list", "list": ends},
    }
    short = tmp_path / path.name
    short.write_text(yaml.safe_dump(told, sort_keys=False))
    plan = make_plan(load_study(short))
    conduct = carried_out(plan, tmp_path / "out")

    assert not conduct.outcome.failed
    found = {line.split(",")[0] for line in (tmp_path / "out" / "table.csv").read_text().splitlines()[1:]}
    assert len(found) == len({str(end[next(iter(told["axes"]))]) for end in ends})
