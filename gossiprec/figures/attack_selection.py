"""Attack results of a figure: selection, layout in panels, and distributions of accuracy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64
from gossiprec.base.errors import LogError
from gossiprec.figures.study.quantity import observer_label
from gossiprec.measures.selectors import INTERVALS, ROC, is_of_group
from gossiprec.runs import Run
from gossiprec.runs.reader import Columns


@dataclass(frozen=True)
class AttackKey:
    """One line of a figure: an attack in a run. Field order is the order of panels."""

    run: str
    observer: str
    relevance: str
    momentum: float
    community_size: int

    @classmethod
    def from_label(cls, run: str, label: str) -> AttackKey:
        """Return the key of an attack of a run, from its label ``observer/relevance/b0.99/k50``."""
        observer, relevance, momentum, size = label.rsplit("/", 3)
        return cls(run, observer, relevance, float(momentum[1:]), int(size[1:]))

    def field_text(self, field: str) -> str:
        """Return the label text of one field."""
        value = getattr(self, field)
        if field == "observer":
            return observer_label(value)
        if field == "relevance":
            return f"relevance {value}"
        if field == "momentum":
            return f"momentum {value:g}"
        return f"K = {value}" if field == "community_size" else str(value)

    def cells(self) -> list[str | int | float]:
        """Return the key as the first cells of a csv row."""
        return [getattr(self, field) for field in FIELDS]


FIELDS = tuple(field.name for field in fields(AttackKey))
_LINE_FIRST = ("observer", "run", "momentum", "community_size", "relevance")
_PANEL_FIRST = ("relevance", "observer", "run", "momentum", "community_size")


@dataclass(frozen=True)
class AttackSelection:
    """The attacks that a figure shows; an empty tuple selects all."""

    observers: tuple[str, ...] = ()
    relevances: tuple[str, ...] = ()
    momenta: tuple[float, ...] = ()

    def accepts(self, key: AttackKey) -> bool:
        """Return whether the figure shows this attack."""
        return (
            key.observer in (self.observers or (key.observer,))
            and key.relevance in (self.relevances or (key.relevance,))
            and key.momentum in (self.momenta or (key.momentum,))
        )

    def sort_key(self, key: AttackKey) -> tuple[int, ...]:
        """Return the sort key of a selected attack: the order in which its values were named."""
        named = (
            (self.observers, key.observer),
            (self.relevances, key.relevance),
            (self.momenta, key.momentum),
        )
        return tuple(values.index(value) if values else 0 for values, value in named)


EVERYTHING = AttackSelection()
GUESSES = ("mia_", "item_")
"""Beginnings of the measures of guesses at items."""


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run: the shortest end of its path that distinguishes the runs."""
    parts = [run.path.resolve().parts for run in runs]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise LogError("the same run directory is given twice; pass each once")


def select_attacks(keys: Sequence[AttackKey], selection: AttackSelection) -> list[AttackKey]:
    """Return the keys that `selection` takes, in its order; ties keep the order of the keys.

    Raises
    ------
    LogError
        If it takes none; the message lists the available attacks.
    """
    taken = [key for key in keys if selection.accepts(key)]
    if not taken:
        there = ", ".join(dict.fromkeys(f"{k.observer}/{k.relevance}/{k.momentum:g}" for k in keys))
        raise LogError(
            f"no attack matches the selection; these runs have (observer/relevance/momentum): {there}"
        )
    return sorted(taken, key=selection.sort_key)


def require_attacks(runs: Sequence[Run], *, file: str) -> None:
    """Refuse runs that hold no attack to draw.

    Parameters
    ----------
    runs : sequence of Run
    file : str
        The file that must hold the attacks: ``attacks.csv`` or ``adversaries.npz``.

    Raises
    ------
    LogError
        If no run has this file with content.
    """
    if any(attack_curves(run, "") if file == "attacks.csv" else run.adversaries for run in runs):
        return
    found = ", ".join(f"{run.path} ({run.status})" for run in runs)
    if any(run.status == "running" for run in runs):
        raise LogError(
            f"no attack results yet: {file} is missing or empty in {found}; wait for the end of the run, or "
            "watch it with: gossiprec report --watch"
        )
    raise LogError(
        f"no attack results: {file} is missing or empty in {found}; "
        "a run has them if its scenario lists a cda entry under observers and it reached an evaluation"
    )


@dataclass(frozen=True)
class PanelLayout:
    """The layout of attacks in panels.

    Attributes
    ----------
    line : str
        The field that distinguishes the lines of a panel.
    across, down : tuple of str
        The fields that distinguish columns and rows of panels.
    """

    line: str
    across: tuple[str, ...]
    down: tuple[str, ...]

    def title(self, key: AttackKey) -> str:
        """Return a panel's title: observer, relevance, and the fields that vary over panels."""
        names = dict.fromkeys(("observer", "relevance", *self.across, *self.down))
        return ", ".join(key.field_text(field) for field in names if field != self.line)


def arrange_panels(keys: Sequence[AttackKey], *, columns: bool = True) -> PanelLayout:
    """Return the layout of every field that varies: lines are observers if there are several, panels the rest.

    Without columns, lines are runs if there are several: they share panels.

    Parameters
    ----------
    keys : sequence of AttackKey
    columns : bool
        Whether one field may vary across columns; otherwise all vary down the rows.
    """
    varying = [field for field in _LINE_FIRST if len({getattr(key, field) for key in keys}) > 1]
    if not columns and "run" in varying:
        varying.sort(key=lambda field: field != "run")
    line = varying[0] if varying else "observer"
    rest = tuple(field for field in _PANEL_FIRST if field in varying and field != line)
    return PanelLayout(line, rest[:1], rest[1:]) if columns else PanelLayout(line, (), rest)


def attack_curves(run: Run, name: str) -> dict[AttackKey, Columns]:
    """Return the rows of ``attacks.csv`` of each attack, in order of first appearance."""
    columns = run.attacks
    rows: dict[AttackKey, list[int]] = {}
    for row, (observer, relevance, momentum, size) in enumerate(
        zip(*(columns[field].tolist() for field in FIELDS[1:]), strict=True) if columns else ()
    ):
        key = AttackKey(name, observer, relevance, float(f"{momentum:g}"), size)
        rows.setdefault(key, []).append(row)
    return {key: {column: columns[column][own] for column in columns} for key, own in rows.items()}


GuessKey = tuple[str, str, str]
"""Run, measure, and labels as JSON text of the results of guesses at items."""


def guess_curves(
    run: Run, name: str, attacks: Iterable[AttackKey], selection: AttackSelection = EVERYTHING
) -> dict[GuessKey, Columns]:
    """Return the results of guesses at items in ``findings.csv``, unless users are ranked by the same guesses."""
    columns = run.findings
    ranked = {(key.observer, key.relevance, key.momentum) for key in attacks}
    rows: dict[GuessKey, list[int]] = {}
    about = (columns[field].tolist() for field in ("measure", "labels")) if columns else ((), ())
    for row, (measure, labels) in enumerate(zip(*about, strict=True)):
        if measure.startswith(GUESSES) and measure not in (ROC, *INTERVALS):
            rows.setdefault((name, measure, labels), []).append(row)
    found = {}
    for key, own in rows.items():
        labels = json.loads(key[2])
        parts = tuple(labels.get(field) for field in ("observer", "relevance", "momentum"))
        wanted = (selection.observers, selection.relevances, selection.momenta)
        if parts not in ranked and all(
            not some or part in some for part, some in zip(parts, wanted, strict=True)
        ):
            found[key] = {column: columns[column][own] for column in ("time", "round", "value")}
    return found


RocCurve: TypeAlias = list[tuple[float, float]]


def roc_curves(run: Run) -> dict[str, RocCurve]:
    """Return false and true positive rates at the last report, ascending, by attack and labels."""
    columns = run.findings
    if not columns:
        return {}
    of_curves = np.flatnonzero(columns["measure"] == ROC)
    last = max(columns["round"][of_curves].tolist(), default=0)
    found: dict[str, RocCurve] = {}
    for row in of_curves[columns["round"][of_curves] == last].tolist():
        labels = json.loads(columns["labels"][row])
        rate = labels.pop("fpr")
        words = [str(value) if name == "observer" else f"{name} {value}" for name, value in labels.items()]
        about = ", ".join([str(columns["attack"][row]), *words])
        found.setdefault(about, []).append((rate, float(columns["value"][row])))
    return {about: sorted(curve) for about, curve in found.items()}


def ranking_metrics(run: Run) -> dict[str, Columns]:
    """Return the ranking metrics of all users, those cut at a list length (``hr@20``), by name."""
    columns = run.metrics
    if not columns:
        return {}
    known = map(str, dict.fromkeys(columns["metric"].tolist()))
    names = [name for name in known if "@" in name and not is_of_group(name)]
    return {
        name: {c: columns[c][columns["metric"] == name] for c in ("time", "round", "value")} for name in names
    }


def group_keys(keys: Sequence[AttackKey], names: tuple[str, ...]) -> list[list[AttackKey]]:
    """Return the keys in groups that agree in these fields, the last field varying fastest.

    Values are in order of first appearance; combinations that no key has are left out.
    """
    orders = [list(dict.fromkeys(getattr(key, name) for key in keys)) for name in names]
    groups: dict[tuple[Any, ...], list[AttackKey]] = {values: [] for values in itertools.product(*orders)}
    for key in keys:
        groups[tuple(getattr(key, name) for name in names)].append(key)
    return [group for group in groups.values() if group]


@dataclass(frozen=True)
class AccuracyDistribution:
    """The accuracies of the adversaries of one attack.

    Attributes
    ----------
    accuracy : ndarray of float64
        Distinct accuracies, ascending, as fractions.
    share : ndarray of float64
        Share of the adversaries with this accuracy or less.
    adversaries : int
    random_bound : float
        NaN if the run does not report it.
    """

    accuracy: F64
    share: F64
    adversaries: int
    random_bound: float

    @property
    def mean(self) -> float:
        """The mean accuracy of the adversaries."""
        return float(self.accuracy @ np.diff(self.share, prepend=0.0))


def accuracy_distribution(accuracies: npt.ArrayLike, random_bound: float) -> AccuracyDistribution:
    """Return the empirical distribution of these accuracies."""
    levels, counts = np.unique(np.asarray(accuracies, np.float64), return_counts=True)
    return AccuracyDistribution(levels, np.cumsum(counts) / counts.sum(), int(counts.sum()), random_bound)


def accuracy_distributions(runs: Sequence[Run]) -> dict[AttackKey, AccuracyDistribution]:
    """Return the distribution of each attack of each run that wrote its adversaries."""
    found = {}
    for run, name in zip(runs, run_names(runs), strict=True):
        curves = attack_curves(run, name)
        for label, (_, accuracies) in run.adversaries.items():
            key = AttackKey.from_label(name, label)
            bound = float(curves[key]["random_bound"][0]) if key in curves else float("nan")
            if accuracies.size:
                found[key] = accuracy_distribution(accuracies, bound)
    return found
