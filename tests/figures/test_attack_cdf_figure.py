"""The figure of attack accuracy distributions."""

import itertools

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from small_runs import lines, write_run

from gossiprec.base.errors import LogError
from gossiprec.figures import attack_cdf, style
from gossiprec.figures.attack_selection import AttackSelection


def test_the_table_holds_the_distribution_worked_by_hand(tmp_path):
    attack_cdf.draw([write_run(tmp_path / "run")], tmp_path / "cdf")
    assert lines(tmp_path / "cdf.csv") == [
        "run,observer,relevance,momentum,community_size,accuracy,cumulative_share,adversaries,random_bound",
        "run,single,ndcg,0.9,4,0.0,0.25,4,0.4",
        "run,single,ndcg,0.9,4,0.25,0.75,4,0.4",
        "run,single,ndcg,0.9,4,0.5,1.0,4,0.4",
    ]


@pytest.mark.slow
def test_every_run_observer_and_rule_is_in_the_table(tmp_path):
    several = {"observers": ("single", "coalition-5%"), "relevances": ("ndcg", "standardized")}
    runs = [write_run(tmp_path / name, **several) for name in ("plain", "defended")]
    attack_cdf.draw(runs, tmp_path / "cdf")
    drawn = {tuple(line.split(",")[:3]) for line in lines(tmp_path / "cdf.csv")[1:]}
    assert len(drawn) == 8
    assert ("defended", "coalition-5%", "standardized") in drawn


def test_a_choice_of_observer_leaves_the_others_out(tmp_path):
    run = write_run(tmp_path / "run", observers=("single", "coalition-5%"))
    attack_cdf.draw([run], tmp_path / "cdf", selection=AttackSelection(observers=("coalition-5%",)))
    assert {line.split(",")[1] for line in lines(tmp_path / "cdf.csv")[1:]} == {"coalition-5%"}


def test_a_choice_that_matches_nothing_lists_what_there_is(tmp_path):
    with pytest.raises(LogError, match=r"single/ndcg/0\.9"):
        attack_cdf.draw([write_run(tmp_path / "run")], tmp_path / "cdf", selection=AttackSelection(("dual",)))


def test_runs_without_attacks_are_refused_by_name(tmp_path):
    run = write_run(tmp_path / "quiet", observers=())
    with pytest.raises(LogError, match=r"no attack results: adversaries\.npz .*quiet \(complete\)"):
        attack_cdf.draw([run], tmp_path / "cdf")
    assert not (tmp_path / "cdf.csv").exists()


def test_a_run_without_attacks_does_not_hide_those_of_another(tmp_path):
    runs = [write_run(tmp_path / "quiet", observers=()), write_run(tmp_path / "loud")]
    attack_cdf.draw(runs, tmp_path / "cdf")
    assert {line.split(",")[0] for line in lines(tmp_path / "cdf.csv")[1:]} == {"loud"}


def test_long_titles_stay_above_their_own_panels(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(attack_cdf, "write_figure", lambda stem, header, rows, draw: figures.append(draw()))
    several = {"relevances": ("standardized", "mean_score", "mia-0.25"), "momenta": (0.9, 0.995)}
    runs = [
        write_run(tmp_path / name, **several) for name in ("plain", "a-run-whose-name-is-longer-than-a-panel")
    ]
    with style.house_style():
        attack_cdf.draw(runs, tmp_path / "cdf")
        (figure,) = figures
        FigureCanvasAgg(figure).draw()
    texts = [part for axes in figure.axes for part in axes.get_children() if isinstance(part, Text)]
    titles = [text.get_window_extent() for text in texts if text.get_text()]
    (legend,) = figure.legends
    drawn = [
        *titles,
        legend.get_window_extent(),
        *(axes.xaxis.label.get_window_extent() for axes in figure.axes),
    ]

    steps = [line for axes in figure.axes for line in axes.lines if line.get_drawstyle() == "steps-post"]
    assert steps
    assert {line.get_marker() for line in steps} == {""}
    assert len(titles) == 12  # and the names of guessing
    assert max(box.x1 for box in titles) <= figure.bbox.x1
    for box, other in itertools.combinations(drawn, 2):
        assert not box.overlaps(other)
