"""docs/measures.md: its example runs as it stands, and its table names every measure."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gossiprec.measures import MEASURES
from gossiprec.measures.selectors import read_metric
from tests.emulation.tiny_runs import tiny

PAGE = (Path(__file__).parents[2] / "docs" / "measures.md").read_text()
RUN = """
import json, sys
from gossiprec.emulation import simulate
print(json.dumps(simulate(json.loads(sys.argv[1]), out=sys.argv[2]).summary["utility"]))
"""


@pytest.mark.slow
@pytest.mark.full
def test_its_example_is_measured_like_ours(tmp_path):
    (block,) = (each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "MEASURES" in each)
    scenario = tiny(evaluate={"every": 3, "metrics": ["hr@5", "depth@5", "full_depth@5"]})
    command = [sys.executable, "-c", block + RUN, json.dumps(scenario), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["hr@5", "depth@5", "full_depth@5"]
    assert all(0 <= value < 1 for value in found.values())


def test_its_table_says_what_each_measure_ranks():
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", PAGE, re.MULTILINE)
    assert {name for name, _ in rows} == set(MEASURES)
    for name, ranked in rows:
        assert ranked.startswith("all" if read_metric(f"{name}@5").full else "sampled")
        assert (f"full_{name}" in ranked) == (MEASURES[name].sampled and name != "hr")
