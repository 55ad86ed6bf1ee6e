"""Fuzzing: does any file make gossiprec crash, hang, or return the wrong exit status?

Mutants of all files in ``scenarios/`` and ``scenarios/studies/``, structure-aware and byte by byte, go through the real
command line in this process: ``scenario check`` and ``simulate --dry-run`` (on tiny data, if the file is otherwise
valid), or ``study --dry-run``::

    python -m tools.fuzz [--count 5000] [--seed 1] [--first 0] [--limit 120] [--keep DIR]

prints one JSON line: the number of files by exit status, and the faults. A valid file must give 0 and an invalid one 2
with a message, the same from every command; 1 means that the machine lacks a resource. `--keep` writes the files
with faults to a folder. The exit status of this script is 1 if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from gossiprec.cli.main import COMMANDS, exit_code
from gossiprec.scenario import json_schema, load_scenario
from tools.mutants import Corpus, mutant

ROOT = Path(__file__).resolve().parents[1]
RATINGS = (
    "{name: synthetic, users: 120, items: 150, interactions: 3000, communities: 3, "
    "split: {name: leave_last_k, test: 2, validation: 2}}"
)
CHECK_INS = (
    "{name: synthetic-checkins, users: 120, items: 400, checkins: 5000, communities: 3, "
    "split: {name: random, test: 0.2, validation: 0.1}}"
)
SHORT = {False: "protocol.wakes=3", True: "protocol.rounds=3"}
"""By whether there are rounds: the override that makes the run of a right file a matter of a moment."""


class Hang(BaseException):
    """A command took longer than its limit."""


def _hang(signum: int, frame: FrameType | None) -> None:
    raise Hang


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise Hang if the body takes longer."""
    signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Examiner:
    """Runs commands and records faults in their answers.

    Attributes
    ----------
    answers : Counter of (command, exit status)
    wrong : list of dict
        Command, kind of fault, and its first words.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self.answers: Counter[str] = Counter()
        self.wrong: list[dict[str, Any]] = []
        self.slowest = (0.0, "")

    def ask(self, *arguments: str, allowed: tuple[int, ...]) -> int | None:
        """Run a command; return its exit status, or None if it crashed or hung."""
        file = next(Path(word).name for word in arguments if word.startswith("/"))
        command = " ".join(word for word in arguments if not word.startswith("/"))[:60]
        out, err = io.StringIO(), io.StringIO()
        begin = time.perf_counter()
        code: int | None = None
        try:
            with limited(self._limit), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = exit_code(arguments)
        except Hang:
            self._note(command, "hang", f"more than {self._limit} s")
        except BaseException:
            self._note(command, "traceback", traceback.format_exc()[-1500:])
        self.slowest = max(self.slowest, (time.perf_counter() - begin, f"{command} {file}"))
        if code is not None:
            self._judge(command, code, allowed, out.getvalue(), err.getvalue())
        return code

    def _judge(self, command: str, code: int, allowed: tuple[int, ...], out: str, err: str) -> None:
        self.answers[f"{command.split()[0]} {code}"] += 1
        if code not in allowed:
            self._note(command, f"exit status {code}, not {' or '.join(map(str, allowed))}", err[-500:])
        elif "Traceback" in out + err or "Warning:" in err:
            self._note(command, "noise", err[-1500:])
        elif code and not err.strip():
            self._note(command, "a failure without a message", out[-500:])

    def _note(self, command: str, fault: str, what: str) -> None:
        self.wrong.append({"command": command, "fault": fault, "what": what})


def examine_scenario(examiner: Examiner, file: Path, out: Path) -> None:
    """Check a scenario file, and prepare its run on tiny data if it is valid."""
    path = str(file)
    code = examiner.ask("scenario", "check", path, allowed=(0, 2))
    if code == 2:
        examiner.ask("simulate", path, "--dry-run", "--quiet", "--out", str(out), allowed=(2,))
    elif code == 0:
        scenario = load_scenario(path)
        data = CHECK_INS if scenario.model.name == "prme-g" else RATINGS
        changes = [f"dataset={data}", SHORT[scenario.protocol.name == "fedavg"]]
        words = [word for change in changes for word in ("--set", change)]
        examiner.ask("simulate", path, *words, "--dry-run", "--quiet", "--out", str(out), allowed=(0, 1, 2))


def examine_study(examiner: Examiner, file: Path, out: Path) -> None:
    """Check a study file and all of its runs."""
    examiner.ask("study", str(file), "--dry-run", "--out", str(out), allowed=(0, 1, 2))


def corpus_of(root: Path) -> tuple[Corpus, Corpus]:
    """Return the corpora of scenarios and of studies."""
    studies = sorted((root / "studies").glob("*.yaml"))
    scenarios = sorted({*root.rglob("*.yaml")} - {*studies})
    pages, schema = sorted((ROOT / "docs").glob("*.md")), json_schema()
    return Corpus.collect(scenarios, pages, schema), Corpus.collect(studies, pages, schema)


def examined(options: argparse.Namespace) -> Examiner:
    """Examine the mutants ``first .. first + count - 1``."""
    scenarios, studies = corpus_of(options.root)
    has_studies = bool(studies.files) and "study" in COMMANDS
    examiner = Examiner(options.limit)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "scenarios"
        shutil.copytree(options.root, home)
        (home / "studies").mkdir(exist_ok=True)
        os.chdir(folder)
        for number in range(options.first, options.first + options.count):
            is_study = has_studies and number % 5 == 0
            name, text = mutant(studies if is_study else scenarios, options.seed, number)
            file = (home / "studies" if is_study else home) / f"mutant-{number}-{name}"
            file.write_bytes(text)
            before = len(examiner.wrong)
            (examine_study if is_study else examine_scenario)(examiner, file, Path(folder) / "out")
            for fault in examiner.wrong[before:]:
                fault["file"] = file.name
                print(
                    f"{file.name}: {fault['command']}: {fault['fault']}: {fault['what'][-300:]}",
                    file=sys.stderr,
                    flush=True,
                )
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, options.keep)
            file.unlink()
            if number % 500 == 499:
                print(
                    f"{number + 1 - options.first} examined, {len(examiner.wrong)} faults",
                    file=sys.stderr,
                    flush=True,
                )
        os.chdir(ROOT)
    return examiner


def main() -> int:
    """Examine the mutants and print the line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--root", type=Path, default=ROOT / "scenarios", help="folder of the right files")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one command")
    parser.add_argument(
        "--keep", type=lambda text: Path(text).resolve(), help="folder for the files answered wrongly"
    )
    options = parser.parse_args()
    warnings.simplefilter("always")
    begin = time.perf_counter()
    examiner = examined(options)
    figures = {
        "benchmark": "fuzz",
        "count": options.count,
        "seed": options.seed,
        "answers": dict(sorted(examiner.answers.items())),
        "wrong": len(examiner.wrong),
        "faults": dict(Counter(fault["fault"] for fault in examiner.wrong)),
        "slowest_s": round(examiner.slowest[0], 2),
        "slowest": examiner.slowest[1],
        "seconds": round(time.perf_counter() - begin, 1),
    }
    print(json.dumps(figures), flush=True)
    return 1 if examiner.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
