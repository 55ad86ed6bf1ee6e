"""Curves in TensorBoard, written by its own writer: ``tensorboard --logdir runs``."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossiprec.trackers import TRACKERS, Tracker


@TRACKERS.register("tensorboard")
class TensorBoard(Tracker):
    """Curves over rounds in TensorBoard, from event files in the run directory.

    They hold the time of day and the machine's name, unlike all other files of a run. TensorBoard names a run
    after the folder of its event files, so a run with another name than its directory gets a subfolder of that name.
    """

    modules = ("tensorboard",)

    def __init__(self, run: Path, scenario: Mapping[str, Any], *, name: str, resumed: bool) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        folder = run if name == run.name else run / name.replace(os.sep, "_")
        self._writer = EventFileWriter(str(folder))
        self._restart = SessionLog(status=SessionLog.START) if resumed else None

    def report(self, figures: Mapping[str, float], *, round: int, time: float) -> None:
        """Add a point to each curve; TensorBoard can read it at once."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in {**figures, "virtual time": time}.items()
        ]
        if self._restart:  # later rounds of an earlier process are no longer shown
            self._writer.add_event(self._event(step=round, session_log=self._restart))
            self._restart = None
        self._writer.add_event(
            self._event(wall_time=clock.time(), step=round, summary=self._summary(value=values))
        )
        self._writer.flush()

    def end(self, status: str) -> None:
        """Close the file."""
        self._writer.close()
