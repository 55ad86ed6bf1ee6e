"""Data that a worker has read: the next run with the same data and seed does not read them again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from gossiprec.data.split import Split
from gossiprec.emulation.assembly.data import load_data
from gossiprec.inputs import Inputs, note_inputs, record_inputs
from gossiprec.scenario.model import Scenario
from gossiprec.study.identity import canonical

MOST_BYTES = 512 * 2**20
"""Memory for data that may be asked for again, in each worker."""


class DataCache:
    """The data of the last runs, as long as they fit.

    Parameters
    ----------
    most_bytes : int
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[str, tuple[Split, Inputs]] = OrderedDict()

    def __call__(self, scenario: Scenario) -> Split:
        """Return the scenario's data, divided; see :func:`gossiprec.emulation.assembly.prepare.load_data`."""
        key = canonical([scenario.dataset.plain(), scenario.seed])
        found = self._held.pop(key, None)
        if found is None:
            with record_inputs() as inputs:
                found = load_data(scenario), inputs
        self._held[key] = found
        while sum(array_bytes(split) for split, _ in self._held.values()) > self._most_bytes:
            self._held.popitem(last=False)
        split, inputs = found
        note_inputs(inputs)
        return split


def array_bytes(value: Any) -> int:
    """Return the bytes of all arrays in a dataclass, and those it holds."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value):
        return sum(array_bytes(getattr(value, field.name)) for field in fields(value))
    return 0
