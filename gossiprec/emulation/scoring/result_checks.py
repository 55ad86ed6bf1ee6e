"""Checks of the results of attacks, which plug-ins may get wrong."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I64
from gossiprec.base.errors import PluginError


def refuse(subject: str, found: str, expected: str) -> NoReturn:
    """Refuse a result; `subject` names the attack and ends in a verb.

    Raises
    ------
    PluginError
    """
    raise PluginError(f"{subject} {found}; expected {expected}; fix the attack")


def check_ids(subject: str, name: str, ids: npt.NDArray[np.integer[Any]], end: int) -> None:
    """Refuse ids below 0, or from `end` on."""
    wrong = ids[(ids < 0) | (ids >= end)]
    if len(wrong):
        refuse(subject, f"{name} {wrong[0]}", f"0 to {end - 1}")


def check_once(subject: str, name: str, keys: npt.NDArray[np.integer[Any]]) -> None:
    """Refuse keys that are repeated."""
    if len(np.unique(keys)) < len(keys):
        refuse(subject, f"{name} twice", "each once")


def check_shape(subject: str, name: str, array: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    """Refuse an array of another shape."""
    if array.shape != shape:
        refuse(subject, f"{name} of shape {array.shape}", str(shape))


def check_offsets(subject: str, offsets: I64, n_rows: int, n_items: int) -> None:
    """Refuse offsets that do not divide items among rows."""
    whole = len(offsets) == n_rows + 1 and (np.diff(offsets) >= 0).all()
    if not whole or offsets[0] != 0 or offsets[-1] != n_items:
        found = f"{n_items} items with offsets {offsets[:1]} to {offsets[-1:]} of {len(offsets)}"
        refuse(subject, found, f"{n_rows + 1} ascending offsets, from 0 to the number of items")


def refuse_own(subject: str, known: I64, method: str) -> None:
    """Refuse victims that are nodes of the attack."""
    if len(known):
        raise PluginError(
            f"{subject}: victim {known[0]} is a node of the attack itself, which knows its items; expected other "
            f"users; leave it out of {method}"
        )
