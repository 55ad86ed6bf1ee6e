"""What a report says of runs: one module a section, found by itself, with ``ORDER`` and ``section(runs)``."""
