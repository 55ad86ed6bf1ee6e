"""The command line that every figure shares: ``python -m analysis.<figure> RUN... --out STEM``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from gossiprec.errors import GossipRecError
from gossiprec.eventlog import open_run
from gossiprec.figures.series import Run


def command_line(
    draw: Callable[[Sequence[Run], Path], list[Path]],
    description: str,
    arguments: Sequence[str] | None = None,
) -> None:
    """Open the runs named on the command line, draw them, and print the files written."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directory")
    parser.add_argument(
        "--out", required=True, type=Path, metavar="STEM", help="files are STEM.csv, .png, .svg"
    )
    options = parser.parse_args(arguments)
    try:
        written = draw([open_run(path) for path in options.runs], options.out)
    except GossipRecError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    print(*written, sep="\n")
