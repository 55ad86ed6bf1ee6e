"""The runs of a report, as its sections ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.eventlog import Run
from gossiprec.eventlog.reader import Columns
from gossiprec.figures.attack_selection import FIELDS, AttackKey, attack_curves, run_names
from gossiprec.report.blocks import ChartAxis

CLOCKS = {"round": ChartAxis("round"), "time": ChartAxis("virtual time (mean wake periods)")}
"""The clocks of tables of a run, by column."""

LABELS = FIELDS[1:]
"""Labels of attacks."""

OF_NODES = {"found": "exposure", "accuracy": "attack accuracy"}
"""Measures of nodes that belong to an attack: both are shares of a community."""


@dataclass(frozen=True)
class ReportRuns:
    """Some runs, by the names that tell them apart."""

    runs: Sequence[Run]

    @cached_property
    def named(self) -> dict[str, Run]:
        """Runs by name."""
        return dict(zip(run_names(self.runs), self.runs, strict=True))

    @property
    def is_one(self) -> bool:
        """Whether it is a single run."""
        return len(self.runs) == 1

    @cached_property
    def attacks(self) -> dict[AttackKey, Columns]:
        """The rows of ``attacks.csv`` of each attack of each run."""
        return {key: c for name, run in self.named.items() for key, c in attack_curves(run, name).items()}

    @cached_property
    def reached(self) -> dict[str, float]:
        """How far the log of each run reaches, in virtual time."""
        return {name: logged_until(run) for name, run in self.named.items()}

    def called(self, name: str, words: str) -> str:
        """Return what something of a run is called: with the run's name where there are several."""
        return words if self.is_one else f"{name}: {words}" if words else name

    @cached_property
    def _varying(self) -> list[str]:
        """The labels in which attacks differ."""
        return [name for name in LABELS if len({getattr(key, name) for key in self.attacks}) > 1]

    @property
    def common_words(self) -> str:
        """What all attacks have in common beside their observers, as a sentence; empty where that is nothing."""
        same = [name for name in LABELS[1:] if name not in self._varying]
        key = next(iter(self.attacks))
        return f"All with {', '.join(key.words(name) for name in same)}." if same else ""

    def name_of(self, key: AttackKey) -> str:
        """Return an attack in words: its observer, in what it differs from others, its run where there are several."""
        told = (key.words(name) for name in LABELS if name == "observer" or name in self._varying)
        return self.called(key.run, ", ".join(told))

    def measure_words(self, measure: str, run: str) -> str:
        """Return a measure of nodes in words, such as ``found[single/ndcg/b0.9/k5]``."""
        kind, bracket, label = measure.removesuffix("]").partition("[")
        if not bracket or kind not in OF_NODES:
            return measure.replace("_", " ")
        key = AttackKey.read(run, label)
        return f"{OF_NODES[kind]}, {', '.join(key.words(n) for n in LABELS if n == 'observer' or n in self._varying)}"

    def events(self, kind: str) -> Iterator[tuple[str, Columns]]:
        """Yield runs by name with the rows of a kind of event that they logged; without those that logged none."""
        for name, run in self.named.items():
            if run.log.rows.get(kind):
                yield name, run.events(kind)


def logged_until(run: Run) -> float:
    """Return how far the log of a run reaches, in virtual time; 0 where it is empty."""
    ends = [run.log.time_span(kind) for kind in ("wake", "message", "evaluate") if run.log.rows.get(kind)]
    return max((end[1] for end in ends if end), default=0.0)


def thin_indices(n_points: int, most: int) -> npt.NDArray[Any]:
    """Return the places of at most about `most` of some points, the first and the last among them."""
    return np.unique(np.linspace(0, n_points - 1, min(n_points, most)).round().astype(np.int64))
