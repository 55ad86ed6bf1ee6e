"""``gossiprec init`` and ``gossiprec scenario``: write a bundled scenario; check one, print it, or print the schema."""

from __future__ import annotations

import re
from pathlib import Path

import click

from gossiprec.cli.options import SET, complete_files
from gossiprec.cli.terminal import echo


@click.group()
def scenario() -> None:
    """Validate scenario files, print them with all defaults, or print their JSON Schema."""


@scenario.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=complete_files)
@SET
@click.pass_context
def check(context: click.Context, files: tuple[str, ...], overrides: tuple[str, ...]) -> None:
    """Validate each FILE and list all problems."""
    from gossiprec.base.errors import ScenarioError
    from gossiprec.scenario import load_scenario

    failed = False
    for file in files:
        try:
            loaded = load_scenario(file, overrides)
        except ScenarioError as error:
            failed = True
            echo(str(error), err=True)
        else:
            echo(f"{file}: ok ({loaded.name}: {loaded.protocol.name} on {loaded.dataset.name})")
    if failed:
        context.exit(ScenarioError.exit_code)


@scenario.command()
@click.argument("file", metavar="FILE", shell_complete=complete_files)
@SET
def show(file: str, overrides: tuple[str, ...]) -> None:
    """Print FILE with preset, overrides and defaults applied.

    Options that have no effect given the others are named in comments at the end.
    """
    import yaml

    from gossiprec.base.plain_text import DUMPER
    from gossiprec.scenario import load_scenario
    from gossiprec.scenario.section_checks import describe_ineffective_options

    loaded = load_scenario(file, overrides)
    text = yaml.dump(loaded.resolved(), Dumper=DUMPER, sort_keys=False)
    before, key, protocol = text.partition("\nprotocol:\n")
    for option, remark in loaded.protocol.options.remarks().items():
        protocol = re.sub(rf"^  {option}: .*", rf"\g<0>  # {remark}", protocol, count=1, flags=re.MULTILINE)
    echo(before + key + protocol, nl=False, whole=True)
    for note in describe_ineffective_options(loaded):
        echo(f"# note: {note}")


@scenario.command()
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead of stdout."
)
@click.option("--study", is_flag=True, help="Print the schema of study files instead.")
@click.option(
    "--refer", is_flag=True, help="Let it refer to scenario.schema.json in its folder, with --study."
)
def schema(out: Path | None, study: bool, refer: bool) -> None:
    """Print the JSON Schema of a scenario, with the components of installed plug-ins.

    Editors complete and validate a scenario with the comment `# yaml-language-server: $schema=FILE`. Bundled
    scenarios and studies have it, with gossiprec's own schemas.
    """
    import json

    from gossiprec.scenario import json_schema
    from gossiprec.study.spec import study_schema

    text = json.dumps(study_schema(refers=refer) if study else json_schema(), indent=2) + "\n"
    if out is None:
        echo(text, nl=False, whole=True)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(out), error.strerror or str(error)) from None


def _complete_bundled(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Return the names of bundled scenarios and studies that begin with what was typed."""
    from gossiprec.scenario.bundled import KINDS, bundled_files

    return [name for kind in KINDS for name in bundled_files(kind) if name.startswith(typed)]


@click.command()
@click.argument("name", default="rand_gossip", shell_complete=_complete_bundled)
@click.option("--force", is_flag=True, help="Overwrite existing files that differ.")
def init(name: str, force: bool) -> None:
    """Write the bundled scenario or study NAME to the current directory.

    \b
    gossiprec init                     rand_gossip.yaml, the main scenario, every choice explained
    gossiprec init smoke               smoke.yaml, 24 nodes, seconds
    gossiprec init churn               studies/churn.yaml, and small_gossip.yaml, which it varies
    gossiprec list scenarios           what there is; gossiprec list studies

    Existing files that differ are not overwritten.
    """  # noqa: D301
    from gossiprec.scenario.bundled import STUDIES, get_bundled, write_bundled

    one = get_bundled(None, name)
    for file, is_new in write_bundled(one, Path(), force=force).items():
        echo(f"{file}: {'written' if is_new else 'already exists, unchanged'}")
    command = "study" if one.kind == STUDIES else "simulate"
    if one.required_data is not None:
        dataset, path, key = one.required_data
        echo(f"this scenario reads {dataset} from {path}; to use another path: --set dataset.{key}=PATH")
    echo(f"next: gossiprec {command} {one.file}")
