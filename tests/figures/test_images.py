"""Pictures compared with stored ones; draw these again with GOSSIPREC_DRAW_IMAGES=1 and look at them."""

import os
from pathlib import Path

import pytest
from matplotlib.testing.compare import compare_images

from gossiprec.figures import attack_cdf, curves, exposure, position
from gossiprec.figures.style import house_style
from tests.figures.drawn_studies import figure_of, with_levels, write_study
from tests.figures.small_runs import write_run

IMAGES = Path(__file__).with_name("images")
PICTURES = {
    "lines": {"x": "fanout", "y": "max_aac[single]"},
    "paired": {"y": "max_aac[single]"},
    "front": {"y": "max_aac[single]"},
    "heat": {"y": "max_aac[single]"},
    "bytes": {"kind": "lines", "x": "fanout", "y": "bytes.sent"},
}
OF_RUNS = {figure.__name__.rpartition(".")[2]: figure for figure in (attack_cdf, curves, exposure, position)}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.cases(4)
def test_a_picture_looks_as_it_did(name, tmp_path):
    """Text moves a little between versions of Matplotlib; a lost line, name or number is a larger difference."""
    study = write_study(tmp_path / "s")
    with_levels(study, upper_bound=0.9, random_bound=lambda row: 0.05 / row["fanout"])
    with_levels(study, "hr@20", **{"bytes.sent": lambda row: 2e6 * row["fanout"]})
    with house_style():
        figure_of(study, **{"kind": name} | PICTURES[name]).savefig(
            tmp_path / "d.png", dpi=100, metadata={"Software": None}
        )
    check(tmp_path / "d.png", name)


@pytest.mark.parametrize("name", OF_RUNS)
@pytest.mark.cases(1)
def test_a_picture_of_a_run_looks_as_it_did(name, tmp_path):
    run = write_run(tmp_path / "run", observers=("single", "coalition-10%"))
    OF_RUNS[name].draw([run], tmp_path / "d")
    check(tmp_path / "d.png", name)


def check(drawn, name):
    stored = IMAGES / f"{name}.png"
    if os.environ.get("GOSSIPREC_DRAW_IMAGES"):
        stored.write_bytes(drawn.read_bytes())
    assert compare_images(str(stored), str(drawn), tol=4) is None
