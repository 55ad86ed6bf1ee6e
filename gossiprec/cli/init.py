"""``gossiprec init``: a scenario or a study to start from, written into the working folder."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("name", default="rand_gossip")
@click.option("--force", is_flag=True, help="Replace files that say something else.")
def init(name: str, force: bool) -> None:
    """Write the scenario or study NAME that comes with gossiprec into the working folder.

    \b
    gossiprec init                     rand_gossip.yaml, the main scenario, every choice explained
    gossiprec init smoke               smoke.yaml, 24 nodes, seconds
    gossiprec init churn               studies/churn.yaml, and small_gossip.yaml, which it varies
    gossiprec list scenarios           what there is; gossiprec list studies

    Files that are there already and say something else are left alone.
    """  # noqa: D301
    from gossiprec.scenario.shipped import STUDIES, found, write

    one = found(None, name)
    for file, is_new in write(one, Path(), force=force).items():
        click.echo(f"{file}: {'written' if is_new else 'is there already, the same'}")
    command = "study" if one.kind == STUDIES else "simulate"
    if one.data is not None:
        dataset, path = one.data
        click.echo(f"it reads {dataset} at {path}; elsewhere: --set dataset.path=PATH")
    click.echo(f"next: gossiprec {command} {one.file}")
