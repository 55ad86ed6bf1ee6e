"""Event logs and run directories: what a run writes, and how other tools read it."""

from gossiprec.runs.reader import EventLog, read_log
from gossiprec.runs.run import Run, open_run
from gossiprec.runs.run_directory import RunDirectory
from gossiprec.runs.writer import EventWriter

__all__ = ["EventLog", "EventWriter", "Run", "RunDirectory", "open_run", "read_log"]
