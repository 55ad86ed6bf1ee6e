"""Server optimizers: computation of a coordinator between aggregation and the next push. One file per server."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from gossiprec.base.options import RegisteredName, build_registered
from gossiprec.base.registry import Registry
from gossiprec.old_names import forward
from gossiprec.rules.servers.base import ClientAnswers, Downlink, RoundContext, Server

SERVERS: Registry[type[Server]] = Registry("server", __name__, group="servers")

__all__ = ["SERVERS", "ClientAnswers", "Downlink", "RoundContext", "Server", "ServerChoice", "make_server"]


def make_server(spec: Any) -> Server:
    """Return the server that an option of type :data:`ServerChoice` specifies."""
    server: Server = build_registered(SERVERS, spec)
    return server


ServerChoice: TypeAlias = Annotated[str | dict[str, Any], RegisteredName(SERVERS)]
"""The name of a registered server, or ``{name: ..., options}``."""

forward(__name__)
