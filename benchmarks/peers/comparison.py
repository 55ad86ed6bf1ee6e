"""Comparisons of two sides: the same work is checked, turns alternate, ratios are of the turns of a pair."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FOLDER = Path(__file__).resolve().parent
TOLERANCE = 1e-4
"""Largest relative difference of losses and norms that count as equal; other numbers must be equal."""


class FailedError(Exception):
    """A side failed, or the sides do not do the same work; the message is one line."""


@dataclass(frozen=True)
class Comparison:
    """Two scripts in this folder that do the same work.

    Attributes
    ----------
    title, unit : str
        The work, and the amount to which the seconds belong.
    peer : str
        Name of the peer's environment.
    ours, theirs : str
        Scripts, in which ``prepare`` and ``check`` return facts and ``measure`` returns seconds.
    options : mapping
        Options that both sides get.
    aim : float
        How many times as fast as the peer we want to be.
    """

    title: str
    unit: str
    peer: str
    ours: str
    theirs: str
    aim: float
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A measured comparison: medians of seconds, and the peer's over ours of each pair, of wall and processor time."""

    title: str
    peer: str
    unit: str
    threads: int
    aim: float
    ours: Mapping[str, float]
    theirs: Mapping[str, float]
    ratios: Mapping[str, Sequence[float]]
    same: str

    @property
    def ratio(self) -> float:
        """Median of the peer's wall seconds over ours, of the turns of a pair."""
        return statistics.median(self.ratios["wall"])


class Side:
    """A process that does one side's work."""

    def __init__(
        self, python: str | Path, script: str, threads: int, log: Path, cwd: Path | None = None
    ) -> None:
        cores = sorted(os.sched_getaffinity(0))[:threads]
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        found = os.pathsep.join([str(FOLDER), str(FOLDER.parents[1]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONPATH": found}
        self._name, self._log = script, log
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                [str(python), str(FOLDER / script), ",".join(map(str, cores))],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=cwd,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, command: str, **options: Any) -> Any:
        """Return the result of a command.

        Raises
        ------
        FailedError
            If the process ends or reports an error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = ""
        try:
            print(json.dumps({"command": command, **options}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            pass
        answer = json.loads(line) if line else {"error": f"left with {self._process.wait()}"}
        if "error" in answer:
            raise FailedError(f"{self._name}: {command}: {answer['error']}; see {self._log}")
        return answer["result"]


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Return a line for each fact that both sides have and in which they differ."""
    return [
        f"{name}: ours {ours[name]}, theirs {theirs[name]}"
        for name in ours
        if name in theirs and not _equal(ours[name], theirs[name])
    ]


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE)
    return bool(one == other)


def compare(what: Comparison, ours: Side, theirs: Side, folder: Path, *, threads: int, rounds: int) -> Row:
    """Return the row of a comparison.

    Raises
    ------
    FailedError
        If a side fails or their work differs.
    """
    options = {"folder": str(folder), "threads": threads, **what.options}
    for side in (ours, theirs):
        side.ask("prepare", **options)
    facts = ours.ask("check"), theirs.ask("check")
    shared = [name for name in facts[0] if name in facts[1]]
    wrong = differences(*facts)
    if wrong or not shared:
        raise FailedError(f"{what.title}: the work differs: {'; '.join(wrong) or 'no fact is shared'}")
    for side in (ours, theirs):
        side.ask("measure")
    turns: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
    for number in range(rounds):
        pair = [("ours", ours), ("theirs", theirs)]
        for name, side in pair if number % 2 == 0 else reversed(pair):
            turns[name].append(side.ask("measure"))
    mine, others = (
        {key: statistics.median(turn[key] for turn in found) for key in found[0]} for found in turns.values()
    )
    pairs = list(zip(turns["ours"], turns["theirs"], strict=True))
    ratios = {kind: [their[kind] / our[kind] for our, their in pairs] for kind in ("wall", "cpu")}
    same = ", ".join(name.replace("_", " ") for name in shared)
    return Row(what.title, what.peer, what.unit, threads, what.aim, mine, others, ratios, same)


def _seconds(side: Mapping[str, float]) -> str:
    """Return wall and processor seconds, and other parts by name."""
    parts = "".join(f", {name} {part:.3g}" for name, part in side.items() if name not in ("wall", "cpu"))
    return f"{side['wall']:.3g} ({side['cpu']:.3g}){parts}"


def table(rows: Sequence[Row], refusals: Sequence[str], machine: str) -> str:
    """Return the table in Markdown, with the refusals below it."""
    lines = [
        f"Machine: {machine}. Seconds of wall time (in brackets processor time), medians; ratio: peer's over ours.",
        "",
        "| work | peer | threads | unit | ours | peer's | ratio (from to) | of processor time | aim | equal in |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours, theirs = map(_seconds, (row.ours, row.theirs))
        spread, processor = (
            f"{statistics.median(found):.3g} ({min(found):.3g} to {max(found):.3g})"
            for found in (row.ratios["wall"], row.ratios["cpu"])
        )
        aim = f"{row.aim:g}: {'reached' if row.ratio >= row.aim else 'not reached'}"
        cells = (row.title, row.peer, row.threads, row.unit, ours, theirs, spread, processor, aim, row.same)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join([*lines, *(["", *(f"- not compared: {line}" for line in refusals)] if refusals else [])])
