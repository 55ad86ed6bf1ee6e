"""Every error a user can cause or meet, in one tree.

A message states what was found, what is allowed, and the next step. The command line prints the message alone
and leaves with :attr:`GossipRecError.exit_code`; nothing below it is shown as a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GossipRecError(Exception):
    """Base of all errors that gossiprec raises on purpose.

    Attributes
    ----------
    exit_code : int
        Exit status of the command line: 2 for usage and data, 1 for resources.
    """

    exit_code = 2


class ScenarioError(GossipRecError):
    """The scenario (file, override or mapping) does not describe a run."""


class PluginError(ScenarioError):
    """A registered thing cannot be used as it is: its plug-in is broken, or two claim one name."""


class DataError(GossipRecError):
    """A data file is missing, damaged, or does not fit the scenario."""


class LogError(GossipRecError):
    """An event log or run directory cannot be read as one."""


class ResourceError(GossipRecError):
    """The machine lacks what the run needs: memory, disk, a device, a permission."""

    exit_code = 1


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, or an empty string.

    Parameters
    ----------
    name : str
        What was found.
    known : iterable of str
        What is allowed.
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
