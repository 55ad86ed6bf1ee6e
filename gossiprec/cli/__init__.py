"""The command line: commands parse, call and print; they decide nothing."""

from gossiprec.entry import INTERRUPTED

__all__ = ["INTERRUPTED"]
