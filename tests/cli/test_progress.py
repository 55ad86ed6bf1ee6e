"""What a run shows while it works."""

import io

import pytest
from rich.console import Console

from gossiprec.cli.progress import (
    ProgressLines,
    RunProgressBar,
    format_status,
    format_time_left,
    live_display,
    progress_display,
)
from gossiprec.emulation.progress import Status


def status(updates=250, seconds=10.0, **headline):
    return Status(
        time=12.0, round=12, updates=updates, total_updates=1000, seconds=seconds, headline=headline
    )


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=80)


def test_facts_are_time_work_speed_and_the_headline_in_percent():
    assert format_status(status(**{"AAC single": 0.1234})) == [
        "time 12",
        "250 of 1,000 local epochs",
        "25/s",
        "AAC single 12.3 %",
    ]


@pytest.mark.parametrize(
    ("updates", "seconds", "expected"),
    [
        (250, 10.0, "0:30 left"),
        (1, 7.0, "1:56:33 left"),
        (1000, 10.0, "0:00 left"),
        (0, 10.0, ""),
        (0, 0.0, ""),
    ],
)
def test_time_left_follows_from_the_speed_so_far(updates, seconds, expected):
    assert format_time_left(status(updates, seconds)) == expected


def test_lines_come_for_every_phase_and_for_reports_when_due(capsys):
    rare, often = ProgressLines(every_s=3600), ProgressLines(every_s=0)
    for lines in (rare, often):
        lines.phase("simulating")
        lines.tick(status())
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "simulating ...",
        "simulating ...",
        "25 %, time 12, 250 of 1,000 local epochs, 25/s, 0:30 left",
    ]


def test_the_bar_shows_phase_share_and_figures_and_fits_its_terminal():
    console = terminal()
    bar = RunProgressBar(console)
    with live_display(console, bar.renderable):
        bar.phase("simulating")
        bar.tick(status(**{"AAC single": 0.1234, "a metric with a name too long for the line": 0.5}))
        shown = Console(width=80, file=io.StringIO())
        shown.print(bar.renderable())
    lines = shown.file.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("simulating ... ")
    assert lines[0].rstrip().endswith("25 % 0:00:00  0:30 left")
    assert lines[1].startswith("time 12, 250 of 1,000 local epochs, 25/s, AAC single 12.3 %")
    assert max(map(len, lines)) <= 80


def test_nothing_is_shown_when_quiet(capsys):
    with progress_display(quiet=True) as progress:
        assert progress is None
    assert capsys.readouterr() == ("", "")
