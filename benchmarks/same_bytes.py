"""Byte-identical results: the present tree compared with an old commit.

    python benchmarks/same_bytes.py [--commit 323b822] [--tree .] [--only NAME ...] [--keep FOLDER | --old FOLDER]

Runs the scenarios of byte_worlds.py in a worktree of the commit and in the present tree, in separate processes, and
compares log, tables and accuracies. One JSON line per scenario: ``same``, the files that differ with the first
difference in each, and which of the intended differences below occurred. The exit status is 1 if anything else differs.

``--keep`` keeps the old results in a folder and computes only missing ones; ``--old`` computes none. They are valid on
the same machine only: others may round sums differently. Each tree uses the kernels on disk for its sources; with
``XDG_CACHE_HOME=$(mktemp -d)`` before the command all are compiled again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from byte_worlds import WORLDS
from common import emit, say
from trees import BEFORE, ROOT, checkout, command, git, simulate

from gossiprec import open_run

TABLES = ("metrics.csv", "attacks.csv", "positions.csv")
RENAMED = {
    "full_hr@": ("recall@", "the share of a user's test items among the first K is recall; hr is for hits"),
}
"""Intended differences, old name to new name and reason: in scenarios, tables and names of accuracies, if the present
tree knows the new name."""
GIVEN_UP = {
    "predicted_fraction_met": ("fedavg", "clients meet the coordinator and not one another"),
    "predicted_fraction_heard": ("fedavg", "new: how many clients the coordinator has heard of"),
}
"""Intended differences, metric to protocol and reason: rows that may differ or be missing."""
RECREDITED = ("aac", "best10_min", "best10_mean", "upper_bound")
"""Intended difference: columns of ``attacks.csv`` in which ties count by their expectation and not by ids. They, and
the accuracies of single nodes, may differ from earlier runs, which have no ``tied_share`` in their summaries."""


def scenario_text(commit: str, name: str) -> str:
    """Return a scenario of the old commit with overrides."""
    base, changes = WORLDS[name]
    files = git("ls-tree", "-r", "--name-only", "--full-tree", commit, "scenarios/").splitlines()
    (file,) = (file for file in files if Path(file).stem == base)
    plain = yaml.safe_load(git("show", f"{commit}:{file}"))
    for path, value in changes.items():
        *way, last = path.split(".")
        holder = plain
        for key in way:
            holder = holder[int(key) if isinstance(holder, list) else key]
        holder[last] = json.loads(
            json.dumps(value)
        )  # a copy, in which nothing is shared: no aliases in the text
    text = yaml.safe_dump(plain, sort_keys=False)
    knows_recall = git("ls-tree", "-r", "--name-only", "--full-tree", commit, "gossiprec/measures/recall.py")
    return renamed(text, {old: new for old, (new, _) in RENAMED.items()}) if knows_recall else text


def lacking(commit: str, folder: Path, name: str) -> str | None:
    """Return why a folder has no old results of a scenario, or None."""
    scenario, manifest = folder / f"{name}.yaml", folder / name / "manifest.json"
    if not manifest.exists():
        return f"{manifest} is missing"
    if scenario.read_text() != scenario_text(commit, name):
        return f"{scenario} differs from the scenario in byte_worlds.py; remove the folder"
    sha, found = git("rev-parse", f"{commit}^{{commit}}").strip(), json.loads(manifest.read_text())
    if (found["git_commit"], found["status"]) != (sha, "complete"):
        return f"{manifest} is of {found['git_commit']}, {found['status']}; wanted: {sha}, complete"
    return None


def make_old(commit: str, folder: Path, names: list[str]) -> None:
    """Run scenarios in a worktree of the commit; keep scenarios and run directories in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with checkout(commit) as tree:
        for name in names:
            say(f"{name}: {commit}")
            scenario = folder / f"{name}.yaml"
            scenario.write_text(scenario_text(commit, name))
            simulate(tree, scenario, folder / name)


def renames_of(tree: Path, text: str, scratch: Path) -> dict[str, str]:
    """Return the renames that occur in a scenario and that the tree knows, as many as it accepts together."""
    there = [(old, new) for old, (new, _) in RENAMED.items() if old in text]
    for size in range(len(there), 0, -1):
        for names in map(dict, combinations(there, size)):
            scratch.write_text(renamed(text, names))
            if command(tree, "scenario", "check", scratch).returncode == 0:
                return names
    return {}


def renamed(text: str, names: dict[str, str]) -> str:
    """Return a text with new names instead of old ones."""
    for old, new in names.items():
        text = text.replace(old, new)
    return text


def compare(old: Path, new: Path, names: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the first difference in each file that differs, and the intended differences found."""
    found, intended = {}, [f"{before} is {after}" for before, after in names.items()]
    found["events.mplog"] = log_difference(old, new)
    protocol = open_run(old).scenario["protocol"]["name"]
    recredited = not all("tied_share" in attack for attack in (open_run(old).summary or {})["attacks"])
    given_up = [metric for metric, (where, _) in GIVEN_UP.items() if where == protocol]
    for table in TABLES:
        before = renamed((old / table).read_text(), names).splitlines()
        after = (new / table).read_text().splitlines()
        if before != after and table == "metrics.csv":
            kept = [
                [line for line in lines if line.split(",")[2] not in given_up] for lines in (before, after)
            ]
            intended += [f"{metric} given up" for metric in given_up if kept != [before, after]]
            before, after = kept
        if before != after and recredited:
            intended.append(f"ties in {table}")
            before, after = without_accuracies(table, before), without_accuracies(table, after)
        found[table] = row_difference(before, after)
    found["adversaries.npz"] = array_difference(old, new, names, values=not recredited)
    return {file: place for file, place in found.items() if place}, intended


def without_accuracies(table: str, rows: list[str]) -> list[str]:
    """Return the rows of a table without attack accuracies."""
    if table == "attacks.csv" and rows:
        places = [place for place, name in enumerate(rows[0].split(",")) if name not in RECREDITED]
        return [",".join(row.split(",")[place] for place in places) for row in rows]
    return [row for row in rows if not row.partition(",")[2].lstrip('"').startswith(("accuracy[", "found["))]


def row_difference(before: list[str], after: list[str]) -> str | None:
    """Return the first row that differs; the header is row 0."""
    pairs = enumerate(zip_longest(before, after))
    return next((f"row {row}: {one!r}, now {two!r}" for row, (one, two) in pairs if one != two), None)


def log_difference(old: Path, new: Path) -> str | None:
    """Return the first row that differs in each kind of event, if the logs' digests do."""
    one, two = open_run(old), open_run(new)
    if one.manifest["log_digest"] == two.manifest["log_digest"]:
        return None
    kinds = sorted({*one.log.kinds, *two.log.kinds})
    rows = {kind: row_difference(*(list(lines(run, kind)) for run in (one, two))) for kind in kinds}
    said = "; ".join(f"{kind} {place}" for kind, place in rows.items() if place)
    return said or "digests differ, rows do not"


def lines(run: Any, kind: str) -> Iterator[str]:
    """Yield the rows of a kind of event as text."""
    columns = run.events(kind) if kind in run.log.kinds else {}
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield str(dict(zip(columns, row, strict=True)))


def array_difference(old: Path, new: Path, names: dict[str, str], *, values: bool) -> str | None:
    """Return the first array that differs, in its type or its bytes; without `values` only node ids are compared."""
    with np.load(old / "adversaries.npz") as file:
        one = {renamed(key, names): file[key] for key in file.files}
    with np.load(new / "adversaries.npz") as file:
        two = dict(file)
    for key in sorted({*one, *two}):
        a, b = one.get(key), two.get(key)
        if a is None or b is None:
            return f"{key}: only {'now' if a is None else 'before'}"
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{key}: {a.dtype} {a.shape}, now {b.dtype} {b.shape}"
        if (values or key.endswith("/nodes")) and a.tobytes() != b.tobytes():
            place = next(k for k in range(a.size) if a.flat[k].tobytes() != b.flat[k].tobytes())
            return f"{key} entry {place}: {a.flat[place]!r}, now {b.flat[place]!r}"
    return None


def trial(name: str, tree: Path, old: Path, scratch: Path) -> bool:
    """Run a scenario in the present tree, compare, and print the JSON line."""
    text = (old / f"{name}.yaml").read_text()
    scenario = scratch / f"{name}.yaml"
    names = renames_of(tree, text, scenario)
    scenario.write_text(renamed(text, names))
    say(f"{name}: {tree}")
    try:
        simulate(tree, scenario, scratch / name)
    except RuntimeError as failure:
        emit(scenario=name, same=False, failure=str(failure))
        return False
    differences, intended = compare(old / name, scratch / name, names)
    emit(scenario=name, same=not differences, differences=differences, intended=intended)
    return not differences


def main() -> int:
    """Run both trees and compare the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", default=BEFORE)
    parser.add_argument("--tree", type=Path, default=ROOT, help="the present tree")
    parser.add_argument("--only", nargs="+", choices=WORLDS, default=list(WORLDS), metavar="NAME")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the old tree's results in this folder"
    )
    where.add_argument("--old", type=Path, metavar="FOLDER", help="use the old tree's results in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gossiprec-bytes-") as folder:
        scratch = Path(folder)
        old = (options.old or options.keep or scratch / "old").resolve()
        why = {name: lacking(options.commit, old, name) for name in options.only}
        missing = [name for name, reason in why.items() if reason]
        if missing and options.old:
            sys.exit(f"{why[missing[0]]}; make it: --keep {old}")
        if missing:
            make_old(options.commit, old, missing)
        same = [trial(name, options.tree.resolve(), old, scratch) for name in options.only]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
