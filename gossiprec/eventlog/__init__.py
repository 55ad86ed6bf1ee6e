"""Event logs and run directories: what a run writes, and how other tools read it."""

from gossiprec.eventlog.reader import EventLog, read_log
from gossiprec.eventlog.run import Run, open_run
from gossiprec.eventlog.run_directory import RunDirectory
from gossiprec.eventlog.writer import EventWriter

__all__ = ["EventLog", "EventWriter", "Run", "RunDirectory", "open_run", "read_log"]
