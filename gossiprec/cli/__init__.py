"""The command line: commands parse, call and print; they decide nothing."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 + SIGINT."""
