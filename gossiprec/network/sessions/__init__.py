"""Recordings of real devices: when each was online, in the format of the file. A new file adds a format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.base.registry import Registry

if TYPE_CHECKING:
    from gossiprec.network.sessions.base import SessionFormat

SESSION_FORMATS: Registry[type[SessionFormat]] = Registry("session format", __name__, group="session_formats")
"""Formats of files with the sessions of devices."""
