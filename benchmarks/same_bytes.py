"""Byte-identical results: the present tree compared with an old commit.

    python benchmarks/same_bytes.py [--commit c7f803f2] [--tree .] [--only NAME ...] [--keep FOLDER | --old FOLDER]

Runs the scenarios of tiny_scenarios.py and, with ``large-`` before their names, of byte_worlds.py by the code of the
commit and by the present tree, each in one process. Compares every file of the run directories, the last models, and
the output of commands on finished runs. One JSON line per scenario: ``same``, the files that differ with the first
difference in each, and the seconds of both runs. The exit status is 1 if anything differs.

``--keep`` keeps the old results in a folder and computes only missing ones; ``--old`` computes none. They are valid on
the same machine only: others may round sums differently. Each tree uses the kernels on disk for its sources; with
``XDG_CACHE_HOME=$(mktemp -d)`` before the command all are compiled again.
"""

from __future__ import annotations

import argparse
import copy
import functools
import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from byte_worlds import WORLDS
from common import emit, say
from differences import compare
from tiny_scenarios import COMMANDS, INPUTS, INTERRUPTED, SCENARIOS, TRACKERS, write_inputs
from trees import BEFORE, ROOT, checkout, git, run_python

MAKER = Path(__file__).with_name("make_results.py")
LARGE = "large-"
"""Before the names of the scenarios of byte_worlds.py."""
NAMES = (*SCENARIOS, *(f"{LARGE}{name}" for name in WORLDS))


def large_scenario(commit: str, name: str) -> dict[str, Any]:
    """Return a scenario of the old commit with changes."""
    base, changes = WORLDS[name]
    files = git("ls-tree", "-r", "--name-only", "--full-tree", commit, "scenarios/").splitlines()
    (file,) = (file for file in files if Path(file).stem == base)
    return changed(yaml.safe_load(git("show", f"{commit}:{file}")), changes)


def changed(plain: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario after changes by key path, which may share parts with other changes."""
    for path, value in changes.items():
        *way, last = path.split(".")
        holder: Any = plain
        for key in way:
            holder = holder[int(key) if isinstance(holder, list) else key]
        holder[last] = copy.deepcopy(value)
    return plain


@functools.cache
def inputs_digest() -> str:
    """Return the digest of the input files of tiny scenarios."""
    found = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder))
        for file in sorted(Path(folder).rglob("*")):
            if file.is_file():
                found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()


def plan_text(commit: str, name: str) -> str:
    """Return the plan of a result as text for make_results.py, with the commit that defines the scenario."""
    is_large = name.startswith(LARGE)
    scenario = large_scenario(commit, name.removeprefix(LARGE)) if is_large else SCENARIOS[name]
    plan = {
        "commit": git("rev-parse", f"{commit}^{{commit}}").strip(),
        "inputs": None if is_large else inputs_digest(),
        "scenario": scenario,
        "trackers": TRACKERS.get(name, []),
        "until": INTERRUPTED.get(name),
        "commands": COMMANDS.get(name, []),
    }
    return json.dumps(plan, indent=1).replace(INPUTS, "inputs")


def lacking(text: str, folder: Path, name: str) -> str | None:
    """Return why a folder has no result of a plan, or None."""
    plan, run = folder / f"{name}.json", folder / name / "run" / "manifest.json"
    if not (folder / f"{name}.seconds").exists() or not run.exists():
        return f"{folder / name} is missing or not complete"
    if plan.read_text() != text:
        return f"{plan} is of another commit or scenario"
    if (found := json.loads(run.read_text())["git_commit"]) != (sha := json.loads(text)["commit"]):
        return f"{run} is of {found}; wanted: {sha}"
    return None


def make_results(tree: Path, folder: Path, plans: dict[str, str]) -> None:
    """Make the results of scenarios in a folder, with the code of a tree."""
    folder.mkdir(parents=True, exist_ok=True)
    write_inputs(folder / "inputs")
    for name, text in plans.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        for suffix in ("seconds", "failure"):
            (folder / f"{name}.{suffix}").unlink(missing_ok=True)
        (folder / f"{name}.json").write_text(text)
    left = list(plans)
    while left:
        say(f"{tree}: scenarios left: {len(left)}")
        code = run_python(tree, "-P", MAKER, *left, folder=folder, show=True).returncode
        left = [
            name
            for name in left
            if not any((folder / f"{name}.{end}").exists() for end in ("seconds", "failure"))
        ]
        if left:
            (folder / f"{left.pop(0)}.failure").write_text(f"the process left with {code}")


def report(name: str, old: Path, new: Path) -> bool:
    """Compare the results of a scenario, and print the JSON line."""
    failures = {
        side: file.read_text()
        for side, folder in (("old", old), ("new", new))
        if (file := folder / f"{name}.failure").exists()
    }
    if failures:
        say("\n".join(f"{name}, {side}: {text}" for side, text in failures.items()))
        emit(
            scenario=name,
            same=False,
            failures={side: text.splitlines()[-1] for side, text in failures.items()},
        )
        return False
    differences = compare(old / name, new / name)
    seconds = {
        side: float((folder / f"{name}.seconds").read_text())
        for side, folder in (("old_s", old), ("new_s", new))
    }
    emit(scenario=name, same=not differences, differences=differences, **seconds)
    return not differences


def main() -> int:
    """Run both trees and compare the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", default=BEFORE)
    parser.add_argument("--tree", type=Path, default=ROOT, help="the present tree")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the old tree's results in this folder"
    )
    where.add_argument("--old", type=Path, metavar="FOLDER", help="use the old tree's results in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gossiprec-bytes-") as folder:
        new = Path(folder, "new")
        old = (options.old or options.keep or Path(folder, "old")).resolve()
        plans = {name: plan_text(options.commit, name) for name in options.only}
        why = {name: lacking(text, old, name) for name, text in plans.items()}
        missing = [name for name, reason in why.items() if reason]
        if missing and options.old:
            sys.exit(f"{why[missing[0]]}; make it: --keep {old}")
        if missing:
            with checkout(options.commit) as tree:
                make_results(tree, old, {name: plans[name] for name in missing})
        make_results(options.tree.resolve(), new, plans)
        same = [report(name, old, new) for name in options.only]
    say(f"{sum(same)} of {len(same)} scenarios have the same results")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
