"""Why a message is lost and why a clock rings in vain, as the numbers that a log keeps."""

from __future__ import annotations

LOSS, RECEIVER_OFFLINE, SENDER_OFFLINE, RUN_ENDED, PARTITION = range(5)
"""Causes of a drop: places in :data:`gossiprec.eventlog.schema.DROP_CAUSES`."""

ARRIVED = -1
"""No cause: the message was delivered."""

WAITS = -2
"""No cause: the message has come to rest, until its receiver comes back."""

OFFLINE, BUSY = range(2)
"""Causes of a missed wake: places in :data:`gossiprec.eventlog.schema.MISS_CAUSES`."""
