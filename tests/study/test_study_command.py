"""``gossiprec study``: its options, and what it says at the end."""

import re
from shlex import quote

import pytest
from small_studies import COALITION, FANOUT, SINGLE, study_file

from gossiprec.base.errors import ScenarioError
from gossiprec.cli.main import exit_code
from gossiprec.cli.progress import MOST_ROWS, format_table_note, means_table
from gossiprec.figures.study.quantity import Quantity
from gossiprec.figures.study.table_reader import StudyTable, read_study
from gossiprec.study.plan import make_plan
from gossiprec.study.spec import load_study, with_overrides


def run(folder, *options, **keys):
    """Run the command on a small study in this process and return its exit status."""
    return exit_code(
        [
            "study",
            str(study_file(folder, **keys)),
            "--out",
            str(folder / "out"),
            "--jobs",
            "1",
            "-q",
            *options,
        ]
    )


def plan_of(folder, *overrides, seeds=None, limit=None, **keys):
    return make_plan(with_overrides(load_study(study_file(folder, **keys)), overrides, seeds), limit=limit)


@pytest.mark.slow
@pytest.mark.full
def test_it_ends_with_means_and_the_next_commands(tmp_path, capsys):
    assert run(tmp_path, baseline={"fanout": 1}) == 0
    said = capsys.readouterr().out
    found = read_study(tmp_path / "out").values[Quantity("hr@5")]
    lines = [re.split(r"\s{2,}", line.strip()) for line in said.splitlines() if re.match(r"\s*[123] ", line)]
    assert [line[0] for line in lines] == ["1", "2", "3"]
    means = [f"{50 * sum(seeds.values()):.1f}" for seeds in found.values()]
    assert [line[3].split(" ± ")[0] for line in lines] == means
    assert f"gossiprec plot study {quote(str(tmp_path / 'out'))} --kind paired" in said
    assert f"gossiprec report {quote(str(tmp_path / 'out'))}" in said


@pytest.mark.slow
@pytest.mark.full
def test_one_seed_has_no_interval(tmp_path, capsys):
    assert run(tmp_path, "--seeds", "1", "--limit", "1") == 0
    said = capsys.readouterr().out
    assert not re.search(r"\d ± \d", said)
    assert "hr@5 (%)" in said
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 1


def test_seeds_and_the_first_combinations_are_chosen(tmp_path):
    plan = plan_of(tmp_path, seeds=3, limit=2)
    assert [(v.labels["fanout"], v.seed) for v in plan.variants] == [
        (f, s) for f in (1, 2) for s in (1, 2, 3)
    ]


def test_what_is_set_holds_for_every_run_and_axes_have_the_last_word(tmp_path):
    plan = plan_of(tmp_path, "protocol.wakes=4", "protocol.fanout=9", "model.dim=3", set={"model.dim": 6})
    protocols = [variant.scenario.protocol.options for variant in plan.variants]
    assert {p.wakes for p in protocols} == {4}
    assert {p.fanout for p in protocols} == {1, 2, 3}
    assert {variant.scenario.model.options.dim for variant in plan.variants} == {3}
    assert plan.study.to_plain_data()["set"]["protocol.wakes"] == 4
    assert load_study(plan.study.to_plain_data()).file.sets == plan.study.file.sets


def test_without_options_nothing_changes(tmp_path):
    assert (
        with_overrides(load_study(study_file(tmp_path))).to_plain_data()
        == load_study(study_file(tmp_path)).to_plain_data()
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("protocol.wakse=4", "override 'protocol.wakse=4': protocol.wakse: unknown key; did you mean"),
        ("protocol.wakes", "protocol.wakes"),
        ("protocol.wakes=many", "found 'many'"),
        ("seed=3", "write seeds:"),
    ],
)
def test_what_makes_no_sense_is_refused_as_it_was_typed(text, words, tmp_path):
    with pytest.raises(ScenarioError, match=re.escape(words)):
        plan_of(tmp_path, text)


def table_of(n_points, quantities):
    """Return the table of a study by hand."""
    values = {q: {(k,): {1: 0.1, 2: 0.3} for k in range(n_points)} for q in quantities}
    return StudyTable("s", ("x",), {}, values)


def test_a_large_table_is_cut_and_says_so(tmp_path):
    table = table_of(MOST_ROWS + 3, [Quantity(name) for name in "abcdefg"])
    found = means_table(table)
    assert (found.row_count, len(found.columns)) == (MOST_ROWS, 6)
    assert "3 more combinations and 2 more measures" in format_table_note(table, tmp_path)


def test_attacks_and_utility_come_first_and_bounds_last():
    names = ("upper_bound", "messages", "hr@5", "max_aac", "last_aac")
    found = means_table(table_of(2, [Quantity(name) for name in names]))
    assert [str(column.header) for column in found.columns][1:] == [
        "max AAC (%)", "last AAC (%)", "hr@5 (%)", "messages", "upper_bound (%)",
    ]  # fmt: skip


def test_intervals_are_halves_in_the_unit_of_the_column():
    column = means_table(table_of(2, [Quantity("hr@5"), Quantity("messages")])).columns
    assert [*column[1].cells][:1] == ["20.0 ± 127.1"]  # t(1) at 97.5 % is 12.706, the standard error 0.1
    assert [*column[2].cells][:1] == ["0.2 ± 1.3"]


def test_a_combination_without_a_number_has_a_dash():
    table = table_of(2, [Quantity("a"), Quantity("b")])
    del table.values[Quantity("b")][(1,)]
    assert [*means_table(table).columns[2].cells][1] == "-"


def test_the_options_are_used_by_the_command(tmp_path, capsys):
    observers = {"who": {"key": "observers", "values": {"one": [SINGLE], "some": [COALITION]}}}
    assert (
        run(tmp_path, "--dry-run", "--limit", "2", "--set", "protocol.wakes=3", axes={**FANOUT, **observers})
        == 0
    )
    assert "2 combinations, 4 runs" in capsys.readouterr().out
