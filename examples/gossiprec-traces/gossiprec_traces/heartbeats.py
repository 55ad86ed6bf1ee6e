"""Sessions from a log of heartbeats, as servers and brokers write it."""

import numpy as np
from pydantic import PositiveFloat

from gossiprec.base.options import Options
from gossiprec.network.sessions import SESSION_FORMATS, SessionFormat, recording_of_spans


class HeartbeatOptions(Options):
    """Options of logs of heartbeats."""

    silence: PositiveFloat = 120.0
    """seconds after its last heartbeat from which a device is offline"""


@SESSION_FORMATS.register("heartbeats")
class Heartbeats(SessionFormat):
    """Lines of a time in seconds and a device, which is online for a while after each of them."""

    Options = HeartbeatOptions
    unit = "s"

    def recordings(self, source):
        """Yield one recording for each device, all over the time of the whole log."""
        beats = {}
        with source.open() as stream:
            for number, line in enumerate(stream, 1):
                if cells := line.split():
                    try:
                        beats.setdefault(cells[1], []).append(float(cells[0]))
                    except (IndexError, ValueError):
                        raise source.error(
                            number, repr(line[:40]), "a time in seconds and a device"
                        ) from None
        silence, first = self.options.silence, min(map(min, beats.values()), default=0.0)
        length = max(map(max, beats.values()), default=0.0) - first + silence
        for device, found in beats.items():
            times = np.sort(found) - first
            gaps = np.flatnonzero(np.diff(times) > silence)
            begins, ends = times[np.append(0, gaps + 1)], times[np.append(gaps, len(times) - 1)] + silence
            yield recording_of_spans(f"device {device!r}", begins, ends, length)
