"""Writer of interactions to a delimited file, which is written completely or not at all."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from gossiprec.base.arrays import F64
from gossiprec.base.errors import DataError, ResourceError
from gossiprec.data.split import Interactions


def write_table(
    draw: Callable[[], Interactions], out: Path, *, delimiter: str = "\t", overwrite: bool = False
) -> int:
    """Write user, item and, if known, rating and time, one interaction per line; return their number.

    Parameters
    ----------
    draw : callable
        Function that makes the interactions; not called if `out` may not be written.
    out : Path
        Compressed with gzip if it ends in ``.gz``; equal interactions give equal bytes.
    delimiter : str
    overwrite : bool
        Whether an existing file may be replaced.

    Raises
    ------
    DataError
        If `out` exists and may not be replaced, or the delimiter could be mistaken for data.
    ResourceError
        If the folder cannot be written to.
    """
    if out.exists() and not overwrite:
        raise DataError(f"{out}: already exists; pass --overwrite to replace it, or choose another file")
    if not delimiter or not set(delimiter).isdisjoint("0123456789.-\r\n"):
        raise DataError(
            f"delimiter: found {delimiter!r}; expected text without digits, '.', '-' and line ends"
        )
    interactions = draw()
    partial = Path()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
        partial = Path(name)
        with os.fdopen(handle, "wb") as raw:
            _write(raw, interactions, delimiter, packed=out.suffix == ".gz")
        partial.chmod(0o644)
        partial.replace(out)
    except OSError as error:
        raise ResourceError(
            f"{out}: cannot be written: {error.strerror}; choose a folder that is writable"
        ) from error
    finally:
        if partial.name:
            partial.unlink(missing_ok=True)
    return len(interactions.users)


def _times(seconds: list[int], fractions: F64 | None) -> list[str]:
    """Return the texts of times, with all digits that distinguish them."""
    if fractions is None:
        return [*map(str, seconds)]
    parts = (f"{part:.17f}".rstrip("0")[1:] if part else "" for part in fractions.tolist())
    return [f"{whole}{part}" for whole, part in zip(seconds, parts, strict=True)]


def _write(raw: IO[bytes], interactions: Interactions, delimiter: str, *, packed: bool) -> None:
    columns = [interactions.users.tolist(), interactions.items.tolist()]
    if interactions.ratings is not None:
        columns.append([f"{rating:g}" for rating in interactions.ratings.tolist()])
    if interactions.times is not None:
        columns.append(_times(interactions.times.tolist(), interactions.fractions))
    text = "".join(delimiter.join(map(str, row)) + "\n" for row in zip(*columns, strict=True)).encode()
    if not packed:
        raw.write(text)
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as stream:
        stream.write(text)
