"""The hash that identifies data: it covers everything that a run reads from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from gossiprec.data.split import Split

LENGTH = 16
"""Number of hexadecimal digits."""
NO_MATTER = ("name", "understood")
"""Fields that the hash leaves out: the name of the data, and the format of their file."""


def data_fingerprint(split: Split) -> str:
    """Return a hash of the parts of a split, the names, the order of times and the coordinates.

    Equal data have equal hashes, on any machine and from any file with the same contents.
    """
    digest = hashlib.sha256()
    for part in _parts(split):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:LENGTH]


def data_identity(split: Split) -> dict[str, Any]:
    """Return the entry of the data in a run's manifest."""
    return {"fingerprint": data_fingerprint(split), "users": split.n_users, "items": split.n_items}


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value):
        for field in fields(value):
            if field.name not in NO_MATTER:
                yield field.name.encode()
                yield from _parts(getattr(value, field.name))
    elif isinstance(value, tuple):
        yield "\0".join(value).encode(errors="surrogatepass")
    else:
        yield repr(value).encode()
