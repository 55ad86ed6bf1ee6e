"""``gossiprec list``: everything that a scenario can name, ours and that of plug-ins, with options and origin."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from gossiprec.cli.options import JSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gossiprec.scenario.listing import Member, Option
    from gossiprec.scenario.shipped import Shipped

    Told: TypeAlias = tuple[dict[str, Any], Iterable[str]]
    """What is printed as JSON, and as text."""


@click.command()
@click.argument("kind", required=False)
@click.argument("name", required=False)
@JSON
def list(kind: str | None, name: str | None, as_json: bool) -> None:
    """List registered components, one KIND of them, or the options of one; also bundled scenarios and studies.

    \b
    gossiprec list
    gossiprec list models
    gossiprec list models gmf
    gossiprec list scenarios           those that come with gossiprec; gossiprec init NAME writes one
    gossiprec list studies
    gossiprec list scenarios smoke     the text of one

    Components are built in or provided by plug-ins (installed packages with gossiprec entry points).
    """  # noqa: D301
    from gossiprec.scenario import shipped

    if kind in shipped.KINDS:
        found, lines = _shipped(kind) if name is None else _text(shipped.found(kind, name))
    else:
        found, lines = _kinds() if kind is None else _members(kind) if name is None else _member(kind, name)
    click.echo(json.dumps(found, indent=2) if as_json else "\n".join(lines))


def _kinds() -> Told:
    from gossiprec.scenario.listing import strays
    from gossiprec.scenario.registries import KINDS, registry_of
    from gossiprec.scenario.shipped import KINDS as SHIPPED
    from gossiprec.scenario.shipped import shipped

    for stray in strays():
        click.echo(f"note: {stray}", err=True)
    known = {kind: [*registry_of(kind)] for kind in KINDS} | {kind: [*shipped(kind)] for kind in SHIPPED}
    return known, (f"{kind:12} {len(names):3}  {', '.join(names)}" for kind, names in known.items())


def _members(kind: str) -> Told:
    from gossiprec.scenario.listing import members

    found = members(kind)
    return {member.name: asdict(member) for member in found}, table(found)


def _member(kind: str, name: str) -> Told:
    from gossiprec.scenario.listing import member, options_of

    options, about = options_of(kind, name), member(kind, name)
    told = {"kind": kind, **asdict(about), "options": [asdict(option) for option in options]}
    return told, _page(about, options)


def _shipped(kind: str) -> Told:
    from gossiprec.scenario.shipped import shipped

    found = shipped(kind)
    width = max(map(len, found))
    return {name: one.summary for name, one in found.items()}, (
        f"{name:{width}}  {one.summary}" for name, one in found.items()
    )


def _text(one: Shipped) -> Told:
    return {"kind": one.kind, "name": one.name, "summary": one.summary, "text": one.written}, [one.written]


def table(members: Iterable[Member]) -> Iterator[str]:
    """Yield a line for each member."""
    rows = [(m.name, m.origin, f"broken: {m.problem}" if m.problem else m.summary) for m in members]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    yield from (f"{name:{widths[0]}}  {origin:{widths[1]}}  {said}" for name, origin, said in rows)


def _page(member: Member, options: Iterable[Option]) -> Iterator[str]:
    yield f"{member.name} ({member.origin})"
    yield f"  {member.summary}"
    for option in options:
        yield ""
        ends = "required" if option.required else json.dumps(option.default)
        yield f"  {option.key:20} {option.type}  [{ends}]"
        if option.description:
            yield f"  {'':20} {option.description}"
