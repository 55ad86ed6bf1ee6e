"""A server as an option of a protocol: its name, or its name and options."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from gossiprec.registry_options import RegisteredName, build_registered
from gossiprec.servers import SERVERS
from gossiprec.servers.base import Server


def make_server(told: Any) -> Server:
    """Return a server, as an option of type :data:`ServerChoice` tells of it."""
    server: Server = build_registered(SERVERS, told)
    return server


ServerChoice: TypeAlias = Annotated[str | dict[str, Any], RegisteredName(SERVERS)]
"""The name of a registered server, or ``{name: ..., options}``."""
