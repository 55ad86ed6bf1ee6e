"""Checking a log from the first byte to the last."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gossiprec.eventlog.frames import DamagedError
from gossiprec.eventlog.reader import Damage, open_log


@dataclass(frozen=True)
class Verification:
    """What a check of a log found.

    Attributes
    ----------
    path : Path
    size_bytes : int
    complete : bool
        The log was closed by its writer and every byte is as written.
    damage : Damage or None
        None for a log that ends after a whole chunk, without an index: still being written, or its writer
        died.
    rows : dict of str to int
        Readable rows by kind.
    last_times : dict of str to float
        The greatest readable virtual time of each kind that has rows.
    digest : str or None
        Of the readable rows.
    """

    path: Path
    size_bytes: int
    complete: bool
    damage: Damage | None
    rows: dict[str, int]
    last_times: dict[str, float]
    digest: str | None

    def __str__(self) -> str:
        if self.complete:
            return f"{self.path}: complete and intact"
        if self.damage is None:
            return f"{self.path}: intact so far, but ends at byte {self.size_bytes} without an index"
        return f"{self.path}: {self.damage}"


def verify(path: str | os.PathLike[str]) -> Verification:
    """Check every byte of a log: CRCs, the index, the trailer, and the digest against the content.

    Any single flipped bit is found, and any cut: a CRC-32 covers each record, and the magic and the trailer
    are compared with what they must be.

    Raises
    ------
    LogError
        If there is no file to read.
    """
    path = Path(path)
    try:
        log = open_log(path)
    except DamagedError as found:
        damage = Damage(found.offset, found.reason)
        return Verification(path, path.stat().st_size, False, damage, {}, {}, None)
    digest, damage_found = log.digest, log.damage
    if log.index_offset is not None and digest != log.recorded_digest:
        reason = f"the content has digest {digest}, the index records {log.recorded_digest}"
        damage_found = Damage(log.index_offset, reason)
    spans = {kind: log.time_span(kind) for kind in log.kinds}
    return Verification(
        path=path,
        size_bytes=log.size_bytes,
        complete=log.complete and damage_found is None,
        damage=damage_found,
        rows=log.rows,
        last_times={kind: span[1] for kind, span in spans.items() if span},
        digest=digest,
    )
