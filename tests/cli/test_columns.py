"""Tables on terminals of any width wrap at words; what goes into a file or a pipe stays on one line."""

import pytest
from calls import invoke

from gossiprec.cli import options

ROWS = [("run", "what differs"), ("a/b", "one two three four five six seven eight nine ten"), ("c", "")]


def test_the_last_column_wraps_below_its_own_beginning():
    assert [*options.aligned(ROWS, 30)] == [
        "run  what differs",
        "a/b  one two three four five\n     six seven eight nine ten",
        "c",
    ]
    assert [*options.aligned(ROWS)][1] == "a/b  one two three four five six seven eight nine ten"


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("what", [(), ("aggregators",), ("models", "gmf"), ("scenarios",)])
def test_lists_keep_to_the_width_of_the_terminal_and_lose_no_word(what, width, monkeypatch, capsys):
    _, in_a_file, _ = invoke(capsys, "list", *what)
    monkeypatch.setattr("gossiprec.cli.list.terminal_width", lambda: width)
    _, wrapped, _ = invoke(capsys, "list", *what)
    assert wrapped.split() == in_a_file.split()
    assert all(len(line) <= width or len(line.split()) == 1 for line in wrapped.splitlines())


def test_a_note_wraps_at_words(monkeypatch, capsys):
    monkeypatch.setattr(options, "terminal_width", lambda: 30)
    options.print_note("These are tests over the users of single runs.")
    assert capsys.readouterr().out == "These are tests over the users\nof single runs.\n"


def test_a_table_that_is_too_wide_wraps_its_cells(monkeypatch, capsys):
    monkeypatch.setattr(options, "terminal_width", lambda: 30)
    assert not options.fits(ROWS)
    options.print_table(ROWS)
    out = capsys.readouterr().out
    assert out.split() == " ".join(" ".join(row) for row in ROWS).split()
    assert max(map(len, out.splitlines())) <= 30
