"""How a reader can have figures otherwise: format, title, labels, size, colours, order."""

import matplotlib as mpl
import pytest
from click.testing import CliRunner
from matplotlib.colors import to_hex
from small_runs import lines, write_run

from gossiprec.base.errors import LogError
from gossiprec.cli.main import exit_code
from gossiprec.cli.plot import plot
from gossiprec.figures import curves, figure_files, style
from gossiprec.figures.figure_files import (
    HOUSE,
    FigureOptions,
    apply_options,
    figure_options,
    palette_colours,
)
from gossiprec.figures.style import Axis, Panel, Series, draw_panels

PANELS = [Panel("one, two", [Series("a", [0, 1], [0, 1]), Series("b", [0, 1], [1, 0])])]


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run").path


def drawn(**wished):
    """Return a figure of two lines, as wished."""
    with figure_options(FigureOptions(**wished)):
        return apply_options(draw_panels(PANELS, x=Axis("across"), y=Axis("up")))


def invoke(*arguments):
    return CliRunner().invoke(plot, [str(argument) for argument in arguments])


@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_suffix_says_the_format(kind, begins, run, tmp_path):
    result = invoke("cdf", run, "--out", tmp_path / f"v1.2.{kind}")
    assert result.output.split() == [str(tmp_path / f"v1.2.{end}") for end in ("csv", kind)]
    picture = (tmp_path / f"v1.2.{kind}").read_bytes()
    assert picture.startswith(begins)
    invoke("cdf", run, "--out", tmp_path / f"again.{kind.upper()}")
    assert (tmp_path / f"again.{kind}").read_bytes() == picture


def test_what_is_no_format_belongs_to_the_name(run, tmp_path):
    invoke("cdf", run, "--out", tmp_path / "v1.2")
    assert {path.name for path in tmp_path.glob("v*")} == {"v1.2.csv", "v1.2.png", "v1.2.svg"}


def test_other_formats_are_refused_and_nothing_is_written(run, tmp_path, capsys):
    assert exit_code(["plot", "cdf", str(run), "--out", str(tmp_path / "a.jpg")]) == 2
    assert "a.jpg: found .jpg; expected png, svg or pdf" in capsys.readouterr().err
    assert not list(tmp_path.glob("a*"))


def test_title_labels_and_size_are_as_wished():
    figure = drawn(title="All of it " * 12, x_label="x!", y_label="y!", size=(5, 4))
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x!", "y!")
    width, height = figure.get_size_inches()
    assert width == 5
    assert height > 4  # the title stands above
    (title,) = figure.texts
    assert title.get_text().count("\n") >= 1
    figure.draw_without_rendering()
    box = title.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= 5 * figure.dpi
    assert box.y0 > axes.title.get_window_extent().y1
    assert box.y0 > figure.legends[0].get_window_extent().y1


def test_without_wishes_nothing_changes():
    plain = draw_panels(PANELS, x=Axis("across"), y=Axis("up"))
    assert apply_options(plain) is plain
    assert (plain.axes[0].get_xlabel(), plain.texts) == ("across", [])


@pytest.mark.parametrize(
    ("palette", "first"),
    [(None, style.OKABE_ITO[0].lower()), ("grey", "#000000"), ("tab10", "#1f77b4"), ("viridis", "#440154")],
)
def test_lines_have_the_colours_of_the_palette(palette, first):
    found = [to_hex(line.get_color()) for line in drawn(palette=palette).axes[0].lines]
    assert found[0] == first
    assert len(set(found)) == 2
    assert style.line_style(0).color == style.OKABE_ITO[0]  # as before


@pytest.mark.parametrize("palette", ["grey", "tab10", "viridis", "Set1"])
def test_lines_of_a_palette_differ(palette):
    with figure_options(FigureOptions(palette=palette)):
        looks = {(each.color, str(each.dashes), each.marker) for each in map(style.line_style, range(20))}
    assert len(looks) == 20


def test_an_unknown_palette_is_answered_with_some(run):
    error = invoke("cdf", run, "--palette", "rainbows").exception
    assert isinstance(error, LogError)
    assert "palette: found 'rainbows'; expected okabe-ito, grey or a matplotlib" in str(error)


def test_attacks_stand_in_the_order_in_which_they_are_named(tmp_path):
    run = write_run(tmp_path / "run", observers=("single", "coalition-5%", "coalition-9%")).path
    order = ("coalition-9%", "single")
    chosen = [word for name in order for word in ("--observer", name)]
    invoke("cdf", run, *chosen, "--out", tmp_path / "f")
    assert tuple(dict.fromkeys(line.split(",")[1] for line in lines(tmp_path / "f.csv")[1:])) == order


@pytest.mark.slow
@pytest.mark.full
def test_many_panels_are_told_with_a_way_to_fewer(tmp_path):
    run = write_run(tmp_path / "run", observers=("single", "pair"), relevances=tuple("abcdefg")).path
    assert (
        "note: 7 panels; select fewer with --observer" in invoke("cdf", run, "--out", tmp_path / "f").output
    )
    few = invoke("cdf", run, "--out", tmp_path / "f", "--relevance", "a").output
    assert "note" not in few


def curves_of(monkeypatch, *runs):
    """Return the figure of the curves of some runs."""
    found = []
    monkeypatch.setattr(figure_files, "apply_options", lambda figure: found.append(figure) or figure)
    curves.draw(runs, runs[0].path / "c")
    return found[0]


@pytest.mark.slow
def test_runs_share_the_panels_of_curves(tmp_path, monkeypatch):
    names = ("single", "coalition-5%")
    runs = [write_run(tmp_path / name, observers=names) for name in ("plain", "defended")]
    figure = curves_of(monkeypatch, *runs)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    shown = ("single", "coalition of 5 %")
    assert [sum(name in title for title in titles if "attack" in title) for name in shown] == [1, 1]
    for axes in figure.axes[1::2]:
        assert {"plain", "defended"} <= {text.get_text() for text in axes.texts}


def test_a_line_that_ended_is_not_drawn_on():
    with mpl.rc_context():
        figure, ((axes,),) = style.panel_grid(1, 1, width=4, panel_height=2, margins=style.Margins(right=1))
        axes.set_xlim(0, 10)
        ends = [style.LineEnd(x, 0.5, f"to {x}", style.line_style(0)) for x in (3.0, 10.0)]
        style.label_ends(figure, axes, ends)
    assert len(axes.lines) == 3  # a marker for the first; two strokes that lead the second on
    assert min(x for line in axes.lines for x in line.get_xdata()) >= 1
    assert [text.get_text() for text in axes.texts] == ["to 3.0", "to 10.0"]


def test_the_house_palette_is_that_of_okabe_and_ito():
    assert palette_colours(HOUSE) == style.OKABE_ITO
