"""``gossiprec init`` and ``gossiprec list scenarios``: what comes with gossiprec, and how one gets a copy."""

from __future__ import annotations

import json
import re
import shlex

import click
import pytest
from calls import ROOT, invoke

from gossiprec.cli.main import COMMANDS, LazyGroup
from gossiprec.scenario import load_scenario
from gossiprec.scenario.bundled import KINDS, bundled_files
from gossiprec.study.spec import load_study

NAMES = [(kind, name) for kind in KINDS for name in bundled_files(kind)]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_no_scenario_has_the_name_of_a_study():
    assert not bundled_files("scenarios").keys() & bundled_files("studies").keys()


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_what_is_written_says_the_same_and_can_be_loaded_where_it_lies(kind, name, capsys):
    code, out, err = invoke(capsys, "init", name)
    assert (code, err) == (0, "")
    file = out.splitlines()[0].removesuffix(": written")
    where = bundled_files(kind)[name].path
    assert where.is_relative_to(ROOT / "scenarios")
    if kind == "studies":
        assert load_study(file).to_plain_data() == load_study(where).to_plain_data()
    else:
        shipped = json.dumps(load_scenario(where).resolved()).replace("scenarios/traces", "traces")
        assert load_scenario(file).resolved() == json.loads(shipped)
    assert f"\nnext: gossiprec {'study' if kind == 'studies' else 'simulate'} {file}\n" in out


def test_without_a_name_the_main_scenario_is_written_with_its_comments(capsys, tmp_path):
    assert invoke(capsys, "init")[0] == 0
    text = (tmp_path / "rand_gossip.yaml").read_text()
    assert text.startswith("# Who could learn whose tastes in Rand-Gossip")
    assert "gossiprec simulate rand_gossip.yaml" in text


@pytest.mark.slow
def test_a_study_comes_with_the_scenario_that_it_varies(capsys, tmp_path):
    _, out, _ = invoke(capsys, "init", "churn.yaml")
    assert out.startswith("studies/churn.yaml: written\nsmall_gossip.yaml: written\n")
    assert invoke(capsys, "study", "studies/churn.yaml", "--dry-run")[0] == 0
    assert "small_gossip.yaml: already exists, unchanged" in invoke(capsys, "init", "small-gossip")[1]


def test_what_lies_there_is_replaced_only_by_force_and_nothing_else_is_written(capsys, tmp_path):
    mine = tmp_path / "small_gossip.yaml"
    mine.write_text("mine")
    code, out, err = invoke(capsys, "init", "churn")
    assert (code, out) == (2, "")
    assert err == "error: small_gossip.yaml exists and differs; pass --force to overwrite it, or rename it\n"
    assert [path.name for path in tmp_path.iterdir()] == ["small_gossip.yaml"]
    assert invoke(capsys, "init", "churn", "--force")[0] == 0
    assert mine.read_text() != "mine"


def test_data_that_are_needed_are_told(capsys):
    _, out, _ = invoke(capsys, "init", "cda_ml100k_fedavg")
    assert (
        "this scenario reads movielens-100k from ml-100k; to use another path: --set dataset.path=PATH" in out
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["init", "smok"], "no bundled scenario or study 'smok'; did you mean 'smoke'?"),
        (["list", "studies", "churm"], "no bundled study 'churm'; did you mean 'churn'?"),
        (["list", "scenario"], "did you mean 'scenarios'?"),
        (["simulate", "phones.yaml"], "phones.yaml: no such file; run gossiprec init phones to write it"),
    ],
)
def test_an_unknown_name_is_answered_with_the_next_step(arguments, message, capsys):
    code, out, err = invoke(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_listed_with_a_sentence(kind, capsys):
    lines = invoke(capsys, "list", kind)[1].splitlines()
    assert [line.split()[0] for line in lines] == list(bundled_files(kind))
    assert all(len(line.split(maxsplit=1)[1]) > 15 for line in lines)
    assert json.loads(invoke(capsys, "list", kind, "--json")[1]).keys() == bundled_files(kind).keys()


def test_the_text_of_one_is_shown(capsys):
    assert "\nname: smoke\n" in invoke(capsys, "list", "scenarios", "smoke")[1]


def commands(group=None, above=()):
    """Yield every command with its help text."""
    context = click.Context(click.Command("gossiprec"))
    names = COMMANDS if group is None else group.commands
    for name in names:
        command = LazyGroup().get_command(context, name) if group is None else group.commands[name]
        yield " ".join([*above, name]), command.help or ""
        if isinstance(command, click.Group):
            yield from commands(command, (*above, name))


def test_help_texts_name_only_files_that_init_writes():
    from gossiprec.cli.main import gossiprec

    for name, text in [*commands(), ("gossiprec", gossiprec.help)]:
        assert "scenarios/" not in text, name
        for file in re.findall(r"(\S+)\.yaml", text):
            kind = "studies" if file.startswith("studies/") else "scenarios"
            assert file in ("my", "study", "mine", "scenario") or file.removeprefix(
                "studies/"
            ) in bundled_files(kind), (name, file)


@pytest.mark.slow
def test_from_a_file_of_ones_own_to_the_picture_by_the_commands_of_the_quick_start(capsys, tmp_path):
    rows = [f"c{u},B{(7 * u + 3 * n) % 120},{n}" for u in range(30) for n in range(12)]
    (tmp_path / "views.csv").write_text("\n".join(["customer,product,ts", *rows, ""]))
    _, out, _ = invoke(capsys, "data", "check", "views.csv")
    pasted = shlex.split(out.partition("Or pass it to any scenario:  ")[2])
    smaller = [
        "--set",
        "protocol.wakes=2",
        "--set",
        "observers.0.community_size=5",
        "--executor",
        "fused",
    ]
    smaller += ["--set", "observers.1.community_size=5", "--no-plots", "--quiet"]
    assert invoke(capsys, "init", "rand_gossip")[0] == 0
    assert invoke(capsys, "simulate", "rand_gossip.yaml", *pasted, *smaller)[0] == 0
    assert invoke(capsys, "plot", "cdf", "runs/rand-gossip-s1")[0] == 0
    assert (tmp_path / "runs" / "rand-gossip-s1" / "cdf.png").is_file()
