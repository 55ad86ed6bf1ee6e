"""``gossiprec init``: write a bundled scenario or study to the current directory."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("name", default="rand_gossip")
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
        click.echo(f"{file}: {'written' if is_new else 'already exists, unchanged'}")
    command = "study" if one.kind == STUDIES else "simulate"
    if one.data is not None:
        dataset, path = one.data
        click.echo(f"this scenario reads {dataset} from {path}; to use another path: --set dataset.path=PATH")
    click.echo(f"next: gossiprec {command} {one.file}")
