"""The runs of a report, in the form in which its sections use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.figures.attack_selection import FIELDS, AttackKey, attack_curves, run_names
from gossiprec.report.blocks import ChartAxis
from gossiprec.runs import Run
from gossiprec.runs.reader import Columns

CLOCKS = {"round": ChartAxis("round"), "time": ChartAxis("virtual time (mean wake periods)")}
"""Clocks of a run's tables, by column."""

LABELS = FIELDS[1:]
"""Labels of attacks."""

OF_NODES = {"found": "exposure", "accuracy": "attack accuracy"}
"""Measures of nodes that belong to an attack; both are fractions of a community."""


@dataclass(frozen=True)
class ReportRuns:
    """Some runs, with names that distinguish them."""

    runs: Sequence[Run]

    @cached_property
    def runs_by_name(self) -> dict[str, Run]:
        """Runs by name."""
        return dict(zip(run_names(self.runs), self.runs, strict=True))

    @property
    def is_single_run(self) -> bool:
        """Whether it is a single run."""
        return len(self.runs) == 1

    @cached_property
    def attacks(self) -> dict[AttackKey, Columns]:
        """The rows of ``attacks.csv`` of each attack of each run."""
        return {
            key: c for name, run in self.runs_by_name.items() for key, c in attack_curves(run, name).items()
        }

    @cached_property
    def log_ends(self) -> dict[str, float]:
        """Virtual time up to which the log of each run has events."""
        return {name: logged_until(run) for name, run in self.runs_by_name.items()}

    def label_with_run(self, name: str, words: str) -> str:
        """Return a label for a part of a run: with the run's name if there are several runs."""
        return words if self.is_single_run else f"{name}: {words}" if words else name

    @cached_property
    def _varying(self) -> list[str]:
        """The labels in which attacks differ."""
        return [name for name in LABELS if len({getattr(key, name) for key in self.attacks}) > 1]

    @property
    def common_labels_text(self) -> str:
        """The labels that all attacks share apart from their observers, as a sentence; empty if there are none."""
        same = [name for name in LABELS[1:] if name not in self._varying]
        key = next(iter(self.attacks))
        return f"All with {', '.join(key.field_text(name) for name in same)}." if same else ""

    def attack_text(self, key: AttackKey) -> str:
        """Return an attack as text: its observer, its varying labels, and its run if there are several."""
        words = (key.field_text(name) for name in LABELS if name == "observer" or name in self._varying)
        return self.label_with_run(key.run, ", ".join(words))

    def measure_text(self, measure: str, run: str) -> str:
        """Return a measure of nodes as text; it may be ``found[single/ndcg/b0.9/k5]``."""
        kind, bracket, label = measure.removesuffix("]").partition("[")
        if not bracket or kind not in OF_NODES:
            return measure.replace("_", " ")
        key = AttackKey.from_label(run, label)
        shown = (key.field_text(name) for name in LABELS if name == "observer" or name in self._varying)
        return f"{OF_NODES[kind]}, {', '.join(shown)}"

    def events(self, kind: str) -> Iterator[tuple[str, Columns]]:
        """Yield the names of the runs that logged a kind of event, with its rows."""
        for name, run in self.runs_by_name.items():
            if run.log.rows.get(kind):
                yield name, run.events(kind)


def logged_until(run: Run) -> float:
    """Return the virtual time up to which the log of a run has events; 0 if it is empty."""
    ends = [run.log.time_span(kind) for kind in ("wake", "message", "evaluate") if run.log.rows.get(kind)]
    return max((end[1] for end in ends if end), default=0.0)


def thin_indices(n_points: int, most: int) -> npt.NDArray[Any]:
    """Return about `most` evenly chosen indices of the points, including the first and the last."""
    return np.unique(np.linspace(0, n_points - 1, min(n_points, most)).round().astype(np.int64))
