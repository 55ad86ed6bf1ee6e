"""Commands in the documentation can be typed as they stand: they exist, and have the options that are given to them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from gossiprec.cli.main import gossiprec

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "topologies").rglob("*.md")),
]


def commands(page):
    """Return the commands of gossiprec in the shell blocks of a page, without what else stands on their lines."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [re.search(r"(?:^|&& )gossiprec (.*?)(?: && |$)", line) for line in lines]
    return [shlex.split(told[1], comments=True) for told in found if told]


def parse(words):
    """Read a command line as click would, and run nothing; runs and files that it names need not be there."""
    command, context = gossiprec, click.Context(gossiprec, info_name="gossiprec")
    while isinstance(command, click.Group) and words:
        name, command, words = command.resolve_command(context, list(words))
        context = click.Context(command, info_name=name, parent=context)
    try:
        command.make_context(context.info_name, list(words), parent=context.parent)
    except click.BadParameter as error:
        if not error.message.endswith("does not exist."):
            raise
    except click.exceptions.Exit:  # of --help and --version
        pass


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_their_options_exist(page):
    for words in commands(page):
        try:
            parse(words)
        except click.UsageError as error:
            pytest.fail(f"gossiprec {' '.join(words)}: {error.format_message()}")


def test_many_commands_are_read_and_a_wrong_one_is_noticed():
    assert sum(len(commands(page)) for page in PAGES) > 100
    for wrong in ("simulat smoke.yaml", "simulate smoke.yaml --no-such", "plot cdff runs/x"):
        with pytest.raises(click.UsageError):
            parse(wrong.split())


def test_the_gallery_says_how_each_of_its_pictures_is_drawn():
    page = ROOT / "docs" / "gallery.md"
    shown = set(re.findall(r"\]\(pictures/(\w+)\.png\)", page.read_text()))
    drawn = {
        Path(word).stem for words in commands(page) for word in words if word.startswith("docs/pictures/")
    }
    assert shown - {"report"} == drawn  # a report is photographed by hand
    assert all((page.parent / "pictures" / f"{name}.png").is_file() for name in shown)
