"""Columns of the planner's tables: its whole state is plain arrays."""

from __future__ import annotations

# Columns of the node table; LIMIT is the number of local updates after which a node trains no more; HELD is the row
# of the version it pushed last, and PUSHED the first message of a push of its, if it mixes; INBOX is 1 if what it has
# received waits until its model is read; REWRITES is 1 if what it pushes is a row of its own, PUSHES counts those, and
# BASE is the row of its version before its last local update, if that came after its last push.
CURRENT, HEAD, TAIL, UPDATES, ROLE, LIMIT, HELD, PUSHED, INBOX, REWRITES, PUSHES, BASE = range(12)
# Columns of the mass table: weight of what was pooled since the last push, with and without the factors.
WEIGHTED, FULL = range(2)
# Columns of the row table: who needs the row; wave of its last write; latest wave that reads it.
NEEDED, WRITTEN, READ = range(3)
# Columns of the message table; PUSH is the first message of the push that sent this one.
SENDER, CARRIED, NEXT, PUSH = range(4)
# Places in the counters; COLLECTED, beside QUEUED, counts what waits in inboxes; RESERVE is how many released rows
# rest before one is used again, as long as there are fresh ones.
(
    TASKS, MERGES, SIGHTINGS, FREE_HEAD, FREE_COUNT, FRESH, LAST_WAVE, BASE_WAVE, QUEUED, COLLECTED, ENCODES, RESERVE,
) = range(12)  # fmt: skip
# Columns of the table of rewritten pushes: the task, the number of the node's push, and the row of its base.
ENCODER, PUSH_NUMBER, FROM = range(3)
# Columns of the task table and of the sighting table.
NODE, SOURCE, TARGET, UPDATE, WAVE = range(5)
POOL_ID, VICTIM, SEEN_ROW, SEEN_WAVE, SEEN_MESSAGE = range(5)

NONE = -1

APPRAISED = -1.0
"""In place of a merge weight: the executor finds it, by what the versions are worth to the receiver.

Whoever looks on before the merge and cannot know it takes its absolute value, 1: nothing merged yet. In a task of a
node with an inbox it marks what the node's aggregator reduces (:mod:`gossiprec.compute.reducing`)."""
