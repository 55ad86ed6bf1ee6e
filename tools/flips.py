"""Detection of damage: random single-bit flips in a log, and the readable part compared with the original.

    python -m tools.flips [--flips 1000] [--seed 1] [RUN]

Flips one bit after another in the event log of RUN, or of a small run made for the purpose, and prints a JSON line: how
many flips were detected, after how many everything before the damaged record was still read, row for row, and how many
whole chunks after the damage were found again. The exit status is 1 if a flip was missed or lost rows before it.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from gossiprec import simulate
from gossiprec.base.errors import LogError
from gossiprec.runs.reader import EventLog, read_log
from gossiprec.runs.verify import verify_log

ROOT = Path(__file__).resolve().parents[1]


def log_of(run: Path | None, folder: Path) -> Path:
    """Return a copy of a run's log, in the folder."""
    if run is None:
        options = (
            "executor.name=reference",
            "protocol.wakes=100",
            "network.latency={law: exponential, mean: 0.3}",
        )
        run = simulate(ROOT / "scenarios" / "smoke.yaml", overrides=options, out=folder / "run").path
    return Path(shutil.copy(run / "events.mplog", folder / "events.mplog"))


def chunks(log: EventLog) -> list[tuple[str, int, list[bytes]]]:
    """Return the readable chunks: kind, first byte and columns."""
    return [(kind.name, start, packed) for kind, _, packed, start in log.chunks()]


def main() -> int:
    """Flip bits one by one, and print the line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    draw, counts = random.Random(asked.seed), dict.fromkeys(("found", "before_read", "rows_found_beyond"), 0)
    with tempfile.TemporaryDirectory(prefix="gossiprec-flips-") as folder:
        path = log_of(asked.run, Path(folder))
        written, size = chunks(read_log(path, strict=True)), path.stat().st_size
        print(f"{size:,} bytes, {len(written):,} chunks", file=sys.stderr, flush=True)
        with path.open("r+b", buffering=0) as file:
            for _ in range(asked.flips):
                place, bit = draw.randrange(size), 1 << draw.randrange(8)
                file.seek(place)
                byte = file.read(1)[0]
                file.seek(place)
                file.write(bytes([byte ^ bit]))
                found = verify_log(path)
                counts["found"] += not found.complete and found.damage is not None
                counts["rows_found_beyond"] += sum(found.rows_after.values())
                counts["before_read"] += read_before(path, place, written)
                file.seek(place)
                file.write(bytes([byte]))
        whole = verify_log(path).complete
    print(json.dumps(dict(flips=asked.flips, bytes=size, **counts, intact_again=whole)), flush=True)
    return 0 if whole and counts["found"] == counts["before_read"] == asked.flips else 1


def read_before(path: Path, place: int, written: list[tuple[str, int, list[bytes]]]) -> bool:
    """Return whether exactly the chunks before the damaged record are read, unchanged."""
    try:
        readable = chunks(read_log(path))
    except LogError:
        return place < written[0][1]  # the header: nothing precedes it
    starts = [start for _, start, _ in written]
    ends = [*starts[1:], sys.maxsize]
    intact = [chunk for chunk, end in zip(written, ends, strict=True) if end <= place]
    if len(readable) == len(written):  # the damage is in the index or the trailer
        intact = written
    return readable == intact


if __name__ == "__main__":
    sys.exit(main())
