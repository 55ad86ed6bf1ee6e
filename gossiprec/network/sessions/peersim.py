"""Sessions in the format of PeerSim's traces of phones: one line for each recording."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.data.sources import FileSource
from gossiprec.network.sessions import SESSION_FORMATS, Recording, SessionFormat

FORM = "device, first state (1 online, 0 offline), start in ms, time zone, and at least one duration in ms"


@SESSION_FORMATS.register("peersim")
class PeerSim(SessionFormat):
    """Lines of a device, its first state, the start, the time zone, and durations in ms of alternating states.

    Notes
    -----
    Each line is one recording, so a device that was recorded for several weeks counts several times. All recordings
    begin at time 0 of the run; start and time zone are not used.
    """

    unit = "ms"

    def recordings(self, source: FileSource) -> Iterator[Recording]:
        """Yield one recording for each line that is not blank."""
        with source.open() as stream:
            for number, raw in enumerate(stream, 1):
                cells = raw.split()
                if cells:
                    durations = _durations(source, number, cells)
                    yield Recording(
                        f"line {number}", cells[1] == b"1", np.cumsum(durations[:-1]), float(durations.sum())
                    )


def _durations(source: FileSource, number: int, cells: list[bytes]) -> F64:
    if len(cells) < 5 or cells[1] not in (b"0", b"1"):
        found = " ".join(cell.decode("ascii", "replace") for cell in cells[:5])[:60]
        raise source.error(number, repr(found), FORM)
    try:
        durations = np.array(cells[4:], np.float64)
    except ValueError:
        durations = np.array([_number(cell) for cell in cells[4:]])
    bad = ~((durations > 0.0) & np.isfinite(durations))
    if bad.any():
        text = cells[4 + int(np.argmax(bad))][:40].decode("ascii", "replace")
        raise source.error(number, f"duration {text!r}", "milliseconds above 0")
    return durations


def _number(cell: bytes) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
