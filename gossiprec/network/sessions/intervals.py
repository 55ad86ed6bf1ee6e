"""Sessions in a csv file of intervals: one line for each time that a device was online."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gossiprec.data.sources import FileSource
from gossiprec.network.sessions import (
    SESSION_FORMATS,
    Recording,
    SessionFormat,
    first_bad_span,
    recording_of_spans,
)

COLUMNS = ("device", "from", "until")


@SESSION_FORMATS.register("intervals")
class Intervals(SessionFormat):
    """A csv file with the header device,from,until: a line for each time that a device was online.

    Notes
    -----
    Devices have any names. All of them are recorded from time 0 to the latest `until` of the file.
    """

    def recordings(self, source: FileSource) -> Iterator[Recording]:
        """Yield one recording for each device, in the order of their first lines."""
        from gossiprec.data.column_parsers import IdEncoder, number_parser  # pyarrow, which few runs need
        from gossiprec.data.delimited_text import read_columns, require_header
        from gossiprec.data.text_blocks import TextFormat, find_line_of_row

        layout = TextFormat(COLUMNS, ",", header=True, quote='"')
        require_header(source, layout)
        devices = IdEncoder()
        time = number_parser("a number, 0 or more", lambda values: np.isfinite(values) & (values >= 0.0))
        table = read_columns(
            source, layout, {"device": devices.make_parser("device"), "from": time, "until": time}
        )
        owner, begin, end = (table[name] for name in COLUMNS)
        bad = first_bad_span(owner, begin, end)
        if bad is not None:
            raise source.error(
                find_line_of_row(source, layout, bad),
                f"an interval from {begin[bad]:g} until {end[bad]:g}",
                f"intervals of device {list(devices.ids)[owner[bad]]!r} that end after they begin and do not "
                "overlap",
            )
        order = np.lexsort((begin, owner))
        parts = np.split(order, np.flatnonzero(np.diff(owner[order])) + 1)
        for name, rows in zip(devices.ids, parts, strict=True):
            yield recording_of_spans(f"device {name!r}", begin[rows], end[rows], float(end.max()))
