"""Server optimizers: computation of a coordinator between aggregation and the next push. One file per server."""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.old_names import forward
from gossiprec.rules.servers.base import ClientAnswers, Downlink, RoundContext, Server

SERVERS: Registry[type[Server]] = Registry("server", __name__, group="servers")

__all__ = ["SERVERS", "ClientAnswers", "Downlink", "RoundContext", "Server"]

forward(__name__)
