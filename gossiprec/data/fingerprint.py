"""What data are known by: a hash of all that a run takes from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from gossiprec.data.split import Split

LENGTH = 16
"""Hexadecimal digits."""
NO_MATTER = ("name", "understood")
"""What data are called, and how their file is written."""


def data_fingerprint(split: Split) -> str:
    """Return a hash of who has which items in which part, of names, times' order and places.

    The same data give the same one, on any machine and from any file that says the same.
    """
    digest = hashlib.sha256()
    for part in _parts(split):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:LENGTH]


def data_identity(split: Split) -> dict[str, Any]:
    """Return what a run's manifest says of its data."""
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
