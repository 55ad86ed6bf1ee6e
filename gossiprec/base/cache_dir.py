"""The cache folder of this machine for compiled kernels and run timings, and checks of who may write to it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

PRIVATE = 0o700
"""Permissions of folders that gossiprec creates here."""


def cache_dir() -> Path:
    """Return the user's cache folder: ``gossiprec`` in ``XDG_CACHE_HOME``, which is ``~/.cache`` by default."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gossiprec"


def why_untrusted(path: Path) -> str | None:
    """Return why other users could have put their own code into a folder, or None.

    The folder must belong to this user (or to root), and no other user may write to it. The folders above it must be
    safe, see :func:`why_replaceable`. A folder that does not exist yet can be trusted if the folders above it are safe.

    Parameters
    ----------
    path : Path
    """
    path = Path(os.path.realpath(path))
    return (why_writable_by_others(os.stat(path), path) if path.exists() else None) or why_replaceable(path)


def why_replaceable(path: Path) -> str | None:
    """Return why other users could exchange a file or folder for their own through a folder above it, or None.

    Every folder above it must belong to this user or to root, and no other user may write to it. A sticky folder such
    as ``/tmp`` is safe, and a group of which this user is the only member. Systems without user ids are trusted.

    Parameters
    ----------
    path : Path
    """
    if not hasattr(os, "geteuid"):
        return None
    for folder in Path(os.path.realpath(path)).parents:
        if not folder.exists():
            continue
        about = os.stat(folder)
        if not _is_trusted(about.st_uid):
            return f"{folder} belongs to {_user(about.st_uid)}"
        shared = about.st_mode & stat.S_IWOTH or (
            about.st_mode & stat.S_IWGRP and not _is_private(about.st_gid)
        )
        if shared and not about.st_mode & stat.S_ISVTX:
            return f"other users can write to {folder}"
    return None


def why_writable_by_others(status: os.stat_result, path: Path) -> str | None:
    """Return why other users can change a folder or file itself, given its status, or None."""
    if not hasattr(os, "geteuid"):
        return None
    if not _is_trusted(status.st_uid):
        return f"{path} belongs to {_user(status.st_uid)}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users can write to {path}"
    return None


def _is_trusted(owner: int) -> bool:
    """Return whether a user id is this user's, root's, or the owner's of ``/``: root, as a container may show it."""
    return owner in (os.geteuid(), 0, os.stat("/").st_uid)


def _user(owner: int) -> str:
    import pwd

    try:
        return f"the user {pwd.getpwuid(owner).pw_name}"
    except KeyError:
        return f"the user {owner}"


def _is_private(group: int) -> bool:
    """Return whether a group has only this user as a member, as some systems create for every user."""
    import grp
    import pwd

    try:
        me, entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return group == me.pw_gid and entry.gr_name == me.pw_name and set(entry.gr_mem) <= {me.pw_name}
