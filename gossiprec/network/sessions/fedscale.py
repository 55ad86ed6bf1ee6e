"""Sessions in the format of FedScale's trace of clients: a pickled dictionary of plain values."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gossiprec.base.errors import DataError
from gossiprec.data.sources import FileSource
from gossiprec.network.sessions import (
    SESSION_FORMATS,
    Recording,
    SessionFormat,
    first_bad_span,
    recording_of_spans,
)

FORM = "a pickled dictionary: client to {active: [...], inactive: [...], finish_time: t}, in seconds"


class _PlainUnpickler(pickle.Unpickler):
    """A reader of pickles that hold only numbers, texts, lists and dictionaries, so that it runs no code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, which could run code")


@SESSION_FORMATS.register("fedscale")
class FedScale(SessionFormat):
    """A pickled dictionary of clients, each with `active`, `inactive` and `finish_time` in seconds.

    References
    ----------
    F. Lai et al., "FedScale: benchmarking model and system performance of federated learning at scale", ICML 2022:
    a client is online from ``active[k]`` to ``inactive[k]``, and its trace has the length ``finish_time``.

    Notes
    -----
    The pickle may hold numbers, texts, lists, tuples and dictionaries only: one that names a class or a function is
    refused, so that no code of the file runs.
    """

    unit = "s"

    def recordings(self, source: FileSource) -> Iterator[Recording]:
        """Yield one recording for each client, in the order of the dictionary."""
        for client, about in _read_clients(source).items():
            yield _recording(source, f"client {client!r}"[:60], about)


def _read_clients(source: FileSource) -> Mapping[Any, Any]:
    with source.open() as stream:
        data = stream.read()
    try:
        found = _PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle raises errors of almost every kind
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise DataError(f"{source}: found no plain pickle ({reason}); expected {FORM}") from error
    if not isinstance(found, dict):
        raise DataError(f"{source}: found {type(found).__name__}; expected {FORM}")
    return found


def _recording(source: FileSource, place: str, about: Any) -> Recording:
    try:
        begins, ends = (np.array(about[key], np.float64) for key in ("active", "inactive"))
        length = float(about["finish_time"])
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise DataError(f"{source}: {place}: found {str(about)[:60]}; expected {FORM}") from error
    if begins.ndim != 1 or begins.shape != ends.shape:
        raise DataError(
            f"{source}: {place}: found {begins.size} active and {ends.size} inactive times; expected as many"
        )
    valid = np.isfinite(begins) & np.isfinite(ends) & (begins >= 0.0) & (ends <= length)
    bad = first_bad_span(np.zeros(len(begins)), begins, ends) if valid.all() else int(np.argmin(valid))
    if bad is not None:
        raise DataError(
            f"{source}: {place}: found active from {begins[bad]:g} to {ends[bad]:g}; expected sessions from 0 to "
            f"{length:g} that end after they begin and do not overlap"
        )
    order = np.argsort(begins, kind="stable")
    return recording_of_spans(place, begins[order], ends[order], length)
