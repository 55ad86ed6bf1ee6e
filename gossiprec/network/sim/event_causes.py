"""Causes of lost messages and of missed wakes, as numbers for the event log."""

from __future__ import annotations

LOSS, RECEIVER_OFFLINE, SENDER_OFFLINE, RUN_ENDED, PARTITION = range(5)
"""Causes of a drop: indices into :data:`gossiprec.runs.schema.DROP_CAUSES`."""

ARRIVED = -1
"""The message was delivered."""

WAITS = -2
"""The message waits for its receiver to come back online."""

OFFLINE, BUSY = range(2)
"""Causes of a missed wake: indices into :data:`gossiprec.runs.schema.MISS_CAUSES`."""
