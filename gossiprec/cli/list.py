"""``gossiprec list``: everything that a scenario can name, built in or from plug-ins, with options and origin."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from gossiprec.cli.options import JSON, aligned, hang, terminal_width
from gossiprec.cli.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gossiprec.scenario.bundled import BundledFile
    from gossiprec.scenario.registries import OptionInfo, RegisteredThing

    Output: TypeAlias = tuple[dict[str, Any], Iterable[str]]
    """The JSON form and the text lines of an output."""


def _complete_kind(context: click.Context, parameter: click.Parameter, typed: str) -> Iterable[str]:
    """Return the kinds that begin with what was typed."""
    from gossiprec.scenario import bundled, registries

    return [kind for kind in (*registries.KINDS, *bundled.KINDS) if kind.startswith(typed)]


@click.command()
@click.argument("kind", required=False, shell_complete=_complete_kind)
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
    from gossiprec.scenario import bundled

    if kind in bundled.KINDS:
        found, lines = _shipped(kind) if name is None else _text(bundled.get_bundled(kind, name))
    else:
        found, lines = _kinds() if kind is None else _members(kind) if name is None else _member(kind, name)
    echo(json.dumps(found, indent=2) if as_json else "\n".join(lines), whole=as_json)


def _kinds() -> Output:
    from gossiprec.scenario.bundled import KINDS as SHIPPED
    from gossiprec.scenario.bundled import bundled_files
    from gossiprec.scenario.registries import KINDS, get_registry, unknown_plugin_groups

    for stray in unknown_plugin_groups():
        echo(f"note: {stray}", err=True)
    known = {kind: [*get_registry(kind)] for kind in KINDS} | {
        kind: [*bundled_files(kind)] for kind in SHIPPED
    }
    rows = [(kind, f"{len(names):3}", ", ".join(names)) for kind, names in known.items()]
    return known, aligned(rows, terminal_width())


def _members(kind: str) -> Output:
    from gossiprec.scenario.registries import list_members

    found = list_members(kind)
    return {member.name: asdict(member) for member in found}, format_members(found)


def _member(kind: str, name: str) -> Output:
    from gossiprec.scenario.registries import describe_member, describe_options

    options, about = describe_options(kind, name), describe_member(kind, name)
    facts = {"kind": kind, **asdict(about), "options": [asdict(option) for option in options]}
    return facts, _page(about, options)


def _shipped(kind: str) -> Output:
    from gossiprec.scenario.bundled import bundled_files

    found = bundled_files(kind)
    summaries = {name: one.summary for name, one in found.items()}
    return {**summaries}, aligned([*summaries.items()], terminal_width())


def _text(one: BundledFile) -> Output:
    return {"kind": one.kind, "name": one.name, "summary": one.summary, "text": one.text_to_write}, [
        one.text_to_write
    ]


def format_members(members: Iterable[RegisteredThing]) -> Iterator[str]:
    """Yield a line for each member."""
    rows = [
        (
            m.name,
            m.origin,
            *([m.trained] if m.trained else []),
            f"broken: {m.problem}" if m.problem else m.summary,
        )
        for m in members
    ]
    return aligned(rows, terminal_width())


def _page(member: RegisteredThing, options: Iterable[OptionInfo]) -> Iterator[str]:
    width = terminal_width()
    yield f"{member.name} ({member.origin})"
    yield hang("  ", member.summary, width)
    for option in options:
        yield ""
        ends = "required" if option.required else json.dumps(option.default)
        yield hang(f"  {option.key:20} ", f"{option.type}  [{ends}]", width)
        if option.description:
            yield hang(f"  {'':20} ", option.description, width)
