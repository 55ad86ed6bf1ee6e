"""Pictures of studies compared with stored ones; draw these again with GOSSIPREC_DRAW_IMAGES=1 and look at them."""

import os
from pathlib import Path

import pytest
from matplotlib.testing.compare import compare_images

from gossiprec.figures.style import house_style
from tests.figures.drawn_studies import figure_of, with_levels, write_study

IMAGES = Path(__file__).with_name("images")
PICTURES = {
    "lines": {"x": "fanout", "y": "max_aac[single]"},
    "paired": {"y": "max_aac[single]"},
    "front": {"y": "max_aac[single]"},
    "heat": {"y": "max_aac[single]"},
}


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_looks_as_it_did(kind, tmp_path):
    """Text moves a little between versions of Matplotlib; a lost line, name or legend is a larger difference."""
    study = write_study(tmp_path / "s")
    with_levels(study, upper_bound=0.9, random_bound=lambda row: 0.05 / row["fanout"])
    drawn, stored = tmp_path / f"{kind}.png", IMAGES / f"{kind}.png"
    with house_style():
        figure_of(study, kind, **PICTURES[kind]).savefig(drawn, dpi=100, metadata={"Software": None})
    if os.environ.get("GOSSIPREC_DRAW_IMAGES"):
        stored.write_bytes(drawn.read_bytes())
    assert compare_images(str(stored), str(drawn), tol=8) is None
