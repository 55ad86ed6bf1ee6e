"""The finished runs of a study, in groups that are compared with one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote

from gossiprec.base.errors import LogError
from gossiprec.figures.study.quantity import format_label
from gossiprec.figures.study.table_reader import Point, read_study
from gossiprec.runs import Run
from gossiprec.runs.manifest import read_study_mark
from gossiprec.runs.paired_tests import Group
from gossiprec.study.folder import RUNS, open_finished

AGAIN = "run the study again: gossiprec study FILE"


def study_families(folder: Path, note: Callable[[str], None]) -> list[list[Group]]:
    """Return the finished runs of a study by combination, in families; the first group of each is its reference.

    The reference of a combination has the values of the baseline on the axes that this names, and its own values on the
    others. Without a baseline it is the first combination. Combinations that share their runs are one group.

    Parameters
    ----------
    folder : Path
    note : callable
        Receives a sentence about each part of the study that is left out.

    Raises
    ------
    LogError
        If there is nothing to compare.
    """
    table = read_study(folder, or_empty=True)
    finished = _finished_runs(folder, {name for of in table.runs.values() for name in of.values()}, note)
    done = {
        point: tuple((seed, name) for seed, name in runs.items() if name in finished)
        for point, runs in table.runs.items()
    }
    points, axes = [point for point in table.runs if done[point]], table.varying_among(table.runs)

    def reference(point: Point) -> Point:
        if not table.baseline:
            return points[0]
        return tuple(table.baseline.get(name, own) for name, own in zip(table.axes, point, strict=True))

    def label(point: Point) -> str:
        return ", ".join(f"{axis} {format_label(point[table.axis_index(axis)])}" for axis in axes)

    def group(runs: tuple[tuple[int, str], ...]) -> Group:
        names = [label(point) for point in points if done[point] == runs]
        return Group(" / ".join(names), {seed: finished[name] for seed, name in runs})

    lone = [point for point in points if not done.get(reference(point))]
    if lone and len(lone) == len(points):
        baseline = ", ".join(f"{axis} {format_label(value)}" for axis, value in table.baseline.items())
        raise LogError(f"{folder}: found no finished run of the baseline, {baseline}; expected one; {AGAIN}")
    if lone:
        note(
            f"left out, because their baseline has no finished run in this study: {'; '.join(map(label, lone))}"
        )
    families: dict[tuple[tuple[int, str], ...], dict[tuple[tuple[int, str], ...], None]] = {}
    for point in points:
        if point not in lone and done[point] != done[reference(point)]:
            families.setdefault(done[reference(point)], {})[done[point]] = None
    if not families:
        raise _too_few(folder, "one group" if points else "no groups")
    found = [
        _at_common_seeds([group(first), *map(group, others)], note) for first, others in families.items()
    ]
    if not any(found):
        raise LogError(f"{folder}: expected combinations with the same seeds; {AGAIN}")
    return [groups for groups in found if groups]


def _too_few(folder: Path, found: str) -> LogError:
    return LogError(
        f"{folder}: found {found} of finished runs (combinations that differ only in what is observed share theirs); "
        f"expected two or more; for results, gossiprec table {quote(str(folder))}; to compare users, name the runs"
    )


def _finished_runs(folder: Path, names: set[str], note: Callable[[str], None]) -> dict[str, Run]:
    """Return the finished runs of a study by name, and note how many are not."""
    finished = {name: run for name in names if (run := open_finished(folder / RUNS / name))}
    total = read_study_mark(folder).get("simulations", len(names))
    if len(finished) < total:
        left = f"{total - len(finished)} of {total} runs (failed, missing or unfinished)"
        note(f"left out {left}; to complete them, {AGAIN}")
    return finished


def _at_common_seeds(groups: Sequence[Group], note: Callable[[str], None]) -> list[Group]:
    """Return the first group and, of the others, those with two of its seeds, or its only one, at these seeds.

    The list is empty if no other group has them.
    """
    first, least = groups[0], min(2, len(groups[0].runs))
    same = [Group(name, {k: run for k, run in runs.items() if k in first.runs}) for name, runs in groups]
    found = [group for group in same if len(group.runs) >= least]
    few = "; ".join(group.name for group in same if len(group.runs) < least)
    if few:
        what = "without two seeds in common with" if least > 1 else "without the seed of"
        note(f"left out, {what} {first.name}: {few}")
    if len(found) < 2:
        return []
    return found if least > 1 else [Group(f"{name}, seed {min(runs)}", runs) for name, runs in found]
