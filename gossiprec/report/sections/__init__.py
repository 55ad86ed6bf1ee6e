"""Sections of a report on runs: one module each, found automatically, with ``ORDER`` and ``section(runs)``."""
