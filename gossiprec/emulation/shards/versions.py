"""Whether all shards compute alike: the same versions of everything that decides numbers."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from gossiprec.errors import ResourceError
from gossiprec.eventlog.manifest import package_versions
from gossiprec.scenario import Scenario
from gossiprec.scenario.plugins import code_of

Versions = Mapping[str, str]


def own_versions(scenario: Scenario) -> Versions:
    """Return what decides the numbers of a run in this process: the code, with plug-ins, and the libraries."""
    return {"gossiprec": code_of(scenario), "python": platform.python_version(), **package_versions()}


def check_versions(own: Versions, theirs: Mapping[int, tuple[str, Versions]]) -> None:
    """Refuse shards that would compute otherwise.

    Parameters
    ----------
    own : mapping of str to str
        Of shard 0.
    theirs : mapping of int to (str, mapping)
        Where each other shard runs, and its versions.

    Raises
    ------
    ResourceError
        Naming all that differs.
    """
    wrong = []
    for number, (where, versions) in sorted(theirs.items()):
        for name in sorted({*own, *versions}):
            here, there = own.get(name, "none"), versions.get(name, "none")
            if here != there:
                wrong.append(f"shard {number} on {where}: {name} {there}, but {here} in shard 0")
    if wrong:
        raise ResourceError(
            "all shards must have the same versions to compute the same bytes: "
            + "; ".join(wrong)
            + "; install the same versions on all machines"
        )
