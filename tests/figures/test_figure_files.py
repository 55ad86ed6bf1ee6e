"""What all figures share: files, bytes, layout, look."""

import os
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from small_runs import write_run

from gossiprec.base.errors import LogError, ResourceError
from gossiprec.figures import attack_cdf, curves, exposure, figure_files, position, style
from gossiprec.figures.attack_selection import AttackKey, arrange_panels, group_keys, run_names

TEXT_SIZES = (
    "font.size",
    "axes.titlesize",
    "axes.labelsize",
    "xtick.labelsize",
    "ytick.labelsize",
    "legend.fontsize",
)
FIGURES = {"cdf": attack_cdf, "curves": curves, "exposure": exposure, "position": position}

several_lines = st.lists(st.floats(0, 1), min_size=1, max_size=9)


IN_ANOTHER_PROCESS = """
import sys
from gossiprec.cli.main import gossiprec
for name in sys.argv[3:]:
    gossiprec(["plot", name, sys.argv[1], "--out", f"{sys.argv[2]}-{name}"], standalone_mode=False)
"""


@pytest.mark.slow
@pytest.mark.full
def test_the_same_run_gives_the_same_bytes_in_another_process(tmp_path):
    run = write_run(tmp_path / "run")
    subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, str(run.path), str(tmp_path / "there"), *FIGURES],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "MPLBACKEND": "svg", "TZ": "Asia/Tokyo"},
    )
    for name, figure in FIGURES.items():
        for path in figure.draw([run], tmp_path / f"here-{name}"):
            assert path.read_bytes() == path.with_name(path.name.replace("here", "there")).read_bytes()


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.cases(3)
def test_a_figure_is_a_table_and_two_pictures_and_nothing_else(name, tmp_path):
    run = write_run(tmp_path / "run")
    written = FIGURES[name].draw([run], tmp_path / "new" / "figure.of.today")
    assert [path.suffix for path in written] == [".csv", ".png", ".svg"]
    assert sorted((tmp_path / "new").iterdir()) == sorted(written)


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.cases(2)
def test_pictures_are_as_wide_as_a_column_or_a_page(name, tmp_path):
    _, png, _ = FIGURES[name].draw([write_run(tmp_path / "run")], tmp_path / "figure")
    with Image.open(png) as picture:
        assert picture.width in {round(200 * style.COLUMN_IN), round(200 * style.PAGE_IN)}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.cases(3)
def test_every_text_is_inside_the_picture_and_labels_are_no_longer_than_their_axes(
    name, tmp_path, monkeypatch
):
    cut = []

    def look(figure, *arguments, save=Figure.savefig, **options):
        figure.draw_without_rendering()
        width, height = figure.bbox.size
        ticks = {
            id(text) for axes in figure.axes for text in (*axes.get_xticklabels(), *axes.get_yticklabels())
        }
        for text in figure.findobj(Text):
            box = text.get_window_extent()
            inside = min(box.x0, box.y0) > -1 and box.x1 < width + 1 and box.y1 < height + 1
            if text.get_text() and id(text) not in ticks and not inside:
                cut.append(text.get_text())
        cut.extend(
            axes.get_ylabel()
            for axes in figure.axes
            if axes.yaxis.label.get_window_extent().height > axes.get_window_extent().height + 1
        )
        return save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", look)
    FIGURES[name].draw([write_run(tmp_path / "run")], tmp_path / "figure.png")
    assert cut == []


def test_no_text_of_the_look_is_smaller_than_eight_points():
    with style.house_style():
        assert min(mpl.rcParams[key] for key in TEXT_SIZES) >= 8


def test_the_users_own_look_comes_back():
    before = mpl.rcParams["font.size"]
    with pytest.raises(RuntimeError), style.house_style():
        raise RuntimeError
    assert mpl.rcParams["font.size"] == before


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    run = write_run(tmp_path / "run")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResourceError, match=r"cannot write .*file.*--out"):
        curves.draw([run], tmp_path / "file" / "curves")


def test_unknown_numbers_are_empty_fields():
    assert figure_files.csv_bytes(("a", "b"), [(float("nan"), 0.1)]) == b"a,b\n,0.1\n"


@given(several_lines, st.floats(0.001, 0.5))
def test_spread_labels_keep_their_order_their_distance_and_the_panel(wanted, gap):
    placed = style.spread_apart(wanted, gap=gap, low=0.0, high=1.0)
    room = min(gap, 1 / max(len(wanted) - 1, 1))
    in_order = np.array(placed)[np.argsort(wanted, kind="stable")]
    assert (np.diff(in_order) >= room - 1e-9).all()
    assert min(placed) >= -1e-9
    assert max(placed) <= 1 + 1e-9


@given(several_lines)
def test_labels_with_room_enough_are_not_moved(wanted):
    apart = np.linspace(0.1, 0.9, len(wanted)).tolist()
    assert style.spread_apart(apart, gap=0.05, low=0.0, high=1.0) == pytest.approx(apart)


def test_a_long_name_keeps_both_ends_and_a_short_one_all():
    long = "rand-gossip-" + 30 * "x" + "-dp-sgd-s1"
    assert style.short_name("rand-gossip-s1") == "rand-gossip-s1"
    assert len(style.short_name(long)) == style.MAX_NAME
    assert style.short_name(long).startswith("rand-gossip-")
    assert style.short_name(long).endswith("-dp-sgd-s1")


def test_the_first_lines_of_a_panel_all_look_different():
    looks = [style.line_style(place) for place in range(35)]
    assert len({(look.color, str(look.dashes)) for look in looks}) == 35
    assert len({look.color for look in looks[:7]}) == len({look.marker for look in looks[:7]}) == 7


def test_lines_are_observers_where_there_are_several_and_panels_all_that_varies_besides():
    keys = [AttackKey("r", o, q, b, 50) for o in "ab" for q in ("x", "y") for b in (0.0, 0.9)]
    layout = arrange_panels(keys)
    assert (layout.line, layout.across, layout.down) == ("observer", ("relevance",), ("momentum",))
    assert [(k[0].momentum, k[0].relevance) for k in group_keys(keys, (*layout.down, *layout.across))] == [
        (0.0, "x"),
        (0.0, "y"),
        (0.9, "x"),
        (0.9, "y"),
    ]


def test_lines_are_runs_where_only_one_observer_is_shown():
    keys = [AttackKey(run, "single", "ndcg", 0.9, 50) for run in ("plain", "defended")]
    assert arrange_panels(keys).line == "run"


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path):
    runs = [write_run(tmp_path / folder / "run") for folder in ("a", "b")]
    assert run_names(runs) == ["a/run", "b/run"]


def test_a_run_given_twice_is_refused(tmp_path):
    run = write_run(tmp_path / "run")
    with pytest.raises(LogError, match="given twice"):
        run_names([run, run])
