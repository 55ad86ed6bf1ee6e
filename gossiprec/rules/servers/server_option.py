"""Servers as options of a protocol: a name, or a name with options."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from gossiprec.base.options import RegisteredName, build_registered
from gossiprec.rules.servers import SERVERS
from gossiprec.rules.servers.base import Server


def make_server(told: Any) -> Server:
    """Return the server that an option of type :data:`ServerChoice` specifies."""
    server: Server = build_registered(SERVERS, told)
    return server


ServerChoice: TypeAlias = Annotated[str | dict[str, Any], RegisteredName(SERVERS)]
"""The name of a registered server, or ``{name: ..., options}``."""
