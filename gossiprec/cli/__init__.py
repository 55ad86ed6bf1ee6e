"""The command line: commands parse, call and print; they decide nothing."""

from gossiprec.streams import INTERRUPTED

__all__ = ["INTERRUPTED"]
