"""What a coordinator computes between aggregating and the next push: one file each."""

from __future__ import annotations

from gossiprec.registry import Registry
from gossiprec.servers.base import Answers, Downlink, Round, Server

SERVERS: Registry[type[Server]] = Registry("server", __name__, group="servers")

__all__ = ["SERVERS", "Answers", "Downlink", "Round", "Server"]
