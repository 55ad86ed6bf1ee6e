"""The tree of all errors that a user can cause or meet.

A message states what was found, what is expected, and the next step. The command line prints only the message
and exits with :attr:`GossipRecError.exit_code`, without a traceback.
"""

from __future__ import annotations

import difflib
import errno
import sysconfig
from collections.abc import Iterable
from pathlib import Path


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
    """A registered thing cannot be used: its plug-in is broken, or two plug-ins use one name."""


class DataError(GossipRecError):
    """A data file is missing, damaged, or does not fit the scenario."""


class LogError(GossipRecError):
    """An event log or run directory is missing, damaged or of another kind."""


class ResourceError(GossipRecError):
    """The machine lacks what the run needs: memory, disk, a device, a permission."""

    exit_code = 1


class ShardLostError(ResourceError):
    """A shard has died, and the nodes that it owned are lost.

    Attributes
    ----------
    number : int
        The number of the shard.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"shard {number} died: {reason}")
        self.number = number
        self.reason = reason

    def __reduce__(self) -> tuple[type[ShardLostError], tuple[int, str]]:
        """Return the class and the arguments by which another process rebuilds the error."""
        return type(self), (self.number, self.reason)


_ON_DISK = (
    "was removed: rows of nodes are in memory; set executor.storage to float16, divide the nodes among shards "
    "(docs/shards.md), or take a machine with more memory"
)
REMOVED = {
    "--calibrate": "was removed: --dry-run predicts the time from earlier runs only; if it predicts none, first make a "
    "run with a twentieth of the rounds",
    "--print": "was removed: completion prints the script; append it to the file that your shell reads",
    "executor.folder": _ON_DISK,
    "executor.storage: mapped": _ON_DISK,
}
"""The message on each removed option, scenario key or value of a key; it names the replacement."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, or an empty string.

    If no spelling is near, it is one that `name` shortens (``lr``: learning_rate) or lengthens (``dimension``: dim).

    Parameters
    ----------
    name : str
        The unknown name.
    known : iterable of str
        The allowed names.
    """
    names = list(known)
    near = difflib.get_close_matches(name, names)
    near.sort(key=lambda other: sorted(other) != sorted(name))  # exchanged letters are the likeliest mistake
    near = near or [other for other in names if _shortens(name, other) or _shortens(other, name)]
    return f"; did you mean {near[0]!r}?" if near else ""


def _shortens(short: str, name: str) -> bool:
    """Return whether `short` is the first letters of a name, at least three, or those of its words."""
    initials = "".join(word[:1] for word in name.split("_"))
    return (len(short) >= 3 and name.startswith(short)) or (len(short) >= 2 and short == initials)


PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)
SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PATHS = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG)


def describe_os_error(error: OSError) -> tuple[str, int]:
    """Return message, with the next step, and exit status of an error of the operating system.

    Parameters
    ----------
    error : OSError
        Error on a file that gossiprec or a plug-in opened; the message names the plug-in's line.

    Returns
    -------
    str
    int
        2 if a path is wrong, 1 if the machine lacks something.
    """
    subject = f"{error.filename}: " if error.filename else ""
    by, status, step = _foreign_caller(error), 1, "try again"
    if error.errno in PERMISSION:
        step = "fix the permissions, then try again"
    elif error.errno in SPACE:
        step = "free disk space, then try again"
    elif error.errno in PATHS:
        status, step = 2, "correct the path or the file, then try again"
    return f"{subject}{error.strerror or error}{by}; {step}", status


def _foreign_caller(error: BaseException) -> str:
    """Return the line outside gossiprec, Python and its libraries that raised an error, as text, or an empty string."""
    ours, found = Path(__file__).parents[1], ""
    library = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    packages = [
        Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")
    ]  # often a folder of the library
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if ours in (path := Path(code.co_filename)).parents:
            found = ""  # files that gossiprec opens for its caller count as its own
        elif not found and path.is_absolute() and (_is_below(path, packages) or not _is_below(path, library)):
            found = f" ({code.co_name}, {path}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return found


def _is_below(path: Path, folders: list[Path]) -> bool:
    return any(folder in path.parents for folder in folders)
