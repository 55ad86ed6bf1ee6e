"""Lists of runs, and what differs between runs."""

from __future__ import annotations

import functools
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gossiprec.base.errors import GossipRecError, LogError, did_you_mean
from gossiprec.base.plain_text import YAML_GROWTH, flat_items, parse_yaml
from gossiprec.runs import run_files
from gossiprec.runs.manifest import changed_files
from gossiprec.runs.run import Run

FACTS = ("name", "seed", "status", "utility", "best attack", "date", "seconds")
"""Columns of a list of runs, before the keys of their scenarios."""
SHOWN = (run_files.SCENARIO, run_files.SUMMARY)
"""Files from which a list of runs shows values, in addition to the manifest."""
LABELS = ("name", "seed")
"""Keys of scenarios that are facts of a run."""
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class RunRow:
    """A run in a list.

    Attributes
    ----------
    path : Path
    facts : dict
        By :data:`FACTS`, None if unknown; `seconds` is the wall time.
    results : dict
        The utility by measure, and the `max_aac` of the best attack.
    scenario : dict
        The values of the scenario by path, such as ``observers.0.momentum``.
    changed : list of str
        Names of files that differ from the manifest.
    """

    path: Path
    facts: dict[str, Any]
    results: dict[str, float]
    scenario: dict[str, Any]
    changed: list[str] = field(default_factory=list)

    def value(self, key: str) -> Any:
        """Return a fact, a result, a value of the scenario or the names in a section; None if the run has none."""
        for where in (self.facts, self.results, self.scenario):
            if key in where:
                return where[key]
        return ", ".join(self.names_in(key)) or None

    def names_in(self, section: str) -> list[str]:
        """Return the names in a section: its own, or one for each part, such as those of all observers."""
        path = re.compile(rf"{re.escape(section)}(\.\d+)?\.name")
        return [str(value) for key, value in self.scenario.items() if path.fullmatch(key)]


def find_runs(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the run directories in a folder and the folders in it, or the folder itself, sorted.

    Raises
    ------
    LogError
        If there is no such folder.
    """
    top = Path(folder)
    if not top.is_dir():
        raise LogError(f"{top}: found no folder; expected one with runs; name another")
    found = []
    for path, folders, files in os.walk(top):
        if run_files.MANIFEST in files and run_files.SCENARIO in files:
            found.append(Path(path))
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
    return sorted(found)


def list_runs(paths: Iterable[Path]) -> tuple[list[RunRow], list[str]]:
    """Return the rows of runs, and a message for each run that cannot be read."""
    rows, problems = [], []
    for path in paths:
        try:
            rows.append(_row(Run(path)))
        except GossipRecError as error:
            problems.append(str(error))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            problems.append(
                f"{path}: found a manifest or summary that gossiprec did not write ({error}); gossiprec log verify "
                f"{path} names the file"
            )
    return rows, problems


def _row(run: Run) -> RunRow:
    manifest, summary = run.manifest, run.summary or {}
    scenario = read_scenario(run.path)
    utility = {name: value for name, value in summary.get("utility", {}).items() if "=" not in name}
    attacks = [attack for attack in summary.get("attacks", ()) if attack["max_aac"] is not None]
    best = max(attacks, key=operator.itemgetter("max_aac"), default=None)
    first = next(iter(utility.items()), None)
    facts = {
        "name": scenario.get("name"),
        "seed": manifest.get("seed", scenario.get("seed")),
        "status": run.status,
        "utility": first and f"{first[0]} {_text(first[1])}",
        "best attack": best and _attack_words(best),
        "date": str(manifest.get("started", ""))[:16].replace("T", " ") or None,
        "seconds": summary.get("wall_seconds"),
    }
    results = utility | ({"max_aac": best["max_aac"]} if best else {})
    settings = {k: v for k, v in scenario.items() if k not in LABELS}
    return RunRow(run.path, facts, results, settings, changed_files(run.path, manifest, SHOWN))


def _attack_words(best: Mapping[str, Any]) -> str:
    """Return the highest accuracy of an attack, the accuracy at the last report, and its labels."""
    last = best.get("last_aac")
    words = f"{100 * best['max_aac']:.1f} %" + (f" (last {100 * last:.1f} %)" if last is not None else "")
    return f"{words} {best['observer']}, {best['relevance']}"


def read_scenario(path: Path) -> dict[str, Any]:
    """Return the values of a run's scenario by their paths.

    Raises
    ------
    LogError
        If it cannot be read.
    """
    file = path / run_files.SCENARIO
    try:
        text = run_files.read_regular(file, YAML_GROWTH).decode()
        return {path: value for block in _blocks(text) for path, value in _parsed(block)}
    except (OSError, ValueError, AttributeError) as error:
        raise LogError(f"cannot read {file}: {' '.join(str(error).split())}") from error


def _blocks(text: str) -> Iterator[str]:
    """Yield the sections of a scenario as text. Most runs share most of them, so that each is parsed once."""
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if line[0].isalpha()]
    if starts[:1] != [0]:
        raise ValueError("found no mapping; expected the sections of a scenario")
    for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield "".join(lines[begin:end])


@functools.lru_cache(maxsize=4096)
def _parsed(block: str) -> tuple[tuple[str, Any], ...]:
    return tuple(flat_items(parse_yaml(block)))


def differing_keys(rows: Sequence[RunRow]) -> list[str]:
    """Return the keys of the scenarios that have not the same value in all runs, in the order of the scenarios."""
    keys = dict.fromkeys(key for row in rows for key in row.scenario)
    return [key for key in keys if len({repr(row.scenario.get(key)) for row in rows}) > 1]


def select_rows(rows: Iterable[RunRow], conditions: Iterable[str]) -> list[RunRow]:
    """Return the rows that meet all conditions, such as ``status=complete`` or ``hr@20>0.2``.

    Raises
    ------
    LogError
        If a condition is not of this form, or no run has its key.
    """
    rows = list(rows)
    tests = [_condition(text, rows) for text in conditions]
    return [row for row in rows if all(test(row) for test in tests)]


def _condition(text: str, rows: Sequence[RunRow]) -> Callable[[RunRow], bool]:
    places = [(text.find(sign), -len(sign), sign) for sign in COMPARISONS if text.find(sign) > 0]
    if not places:
        raise LogError(
            f"--where: found {text!r}; expected KEY=VALUE, or another of {' '.join(COMPARISONS)} between them; "
            "for example --where status=complete"
        )
    place, _, sign = min(places)
    key = text[:place].strip()
    try:
        wanted = parse_yaml(text[place + len(sign) :])
    except ValueError as error:
        raise LogError(f"condition {text!r}: {error}") from None
    check_key("--where", key, rows)

    def test(row: RunRow) -> bool:
        value = row.value(key)
        if sign in {"=", "!="} and wanted in row.names_in(key):
            value = wanted  # one of several, such as of two observers
        try:
            return COMPARISONS[sign](value, wanted) and (value is not None or sign in {"=", "!="})
        except TypeError:
            return False

    return test


def sort_rows(rows: Iterable[RunRow], key: str, *, reverse: bool = False) -> list[RunRow]:
    """Return rows by one of their values: numbers before text, runs without the value last."""
    rows = list(rows)
    check_key("--sort", key, rows)
    known = [row for row in rows if row.value(key) is not None]

    def order(row: RunRow) -> tuple[bool, Any]:
        value = row.value(key)
        return (False, value) if isinstance(value, int | float) else (True, str(value))

    return [
        *sorted(known, key=order, reverse=reverse),
        *(row for row in rows if row.value(key) is None),
    ]


def check_key(option: str, key: str, rows: Sequence[RunRow]) -> None:
    """Refuse a key that no run has.

    Raises
    ------
    LogError
    """
    known = {*FACTS, *(name for row in rows for name in (*row.results, *row.scenario))}
    if rows and key not in known and all(row.value(key) is None for row in rows):
        raise LogError(
            f"{option}: no run has {key!r}{did_you_mean(key, known)}; expected {', '.join(FACTS)}, a measure such as "
            "hr@20, max_aac, or a key of the scenario such as protocol.wakes"
        )


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def compare_runs(one: Run, other: Run) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Return the differences between two runs, by part: ``scenario``, ``code``, ``data`` and ``results``.

    Returns
    -------
    dict of str to dict
        Of each part, the two values of each key that differs; None if a run has no such value.
    """
    parts = [_parts(run) for run in (one, other)]
    found = {}
    for part in parts[0]:
        left, right = (each[part] for each in parts)
        keys = dict.fromkeys((*left, *right))
        found[part] = {
            key: (left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)
        }
    return found


def _parts(run: Run) -> dict[str, dict[str, Any]]:
    manifest, summary = run.manifest, run.summary or {}
    code = ("gossiprec", "code", "git_commit", "python", "packages", "plugins", "processor", "target")
    inputs = {
        f"inputs.{name}": file.get("sha256", "")[:16] for name, file in manifest.get("inputs", {}).items()
    }
    results = {f"utility.{name}": value for name, value in summary.get("utility", {}).items()}
    for attack in summary.get("attacks", ()):
        name = f"{attack['observer']}/{attack['relevance']}/b{attack['momentum']:g}"
        results[f"attacks.{name}.max_aac"] = attack["max_aac"]
    results |= {f"bytes.{name}": value for name, value in summary.get("bytes", {}).items()}
    own = {"status": run.status, "log": str(manifest.get("log_digest"))[:16]}
    return {
        "scenario": read_scenario(run.path),
        "code": dict(flat_items({key: manifest.get(key) for key in code})),
        "data": dict(flat_items(manifest.get("data", {}))) | inputs,
        "results": own | results,
    }
