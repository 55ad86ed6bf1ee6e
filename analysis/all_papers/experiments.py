"""The experiments of ``study.yaml`` by row: its plain run, the one that somebody watches, the one with poisoners."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analysis.papers.study_file import PaperStudyFile

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))
WATCHED, ATTACKED = "-watched", "-attacked"


@dataclass(frozen=True)
class PaperRow:
    """A row of the table, as ``rows.yaml`` has it.

    Attributes
    ----------
    row : str
        What it is called.
    paper : str
        Whose method it is, or who compares with it.
    runs : str
        The experiment whose numbers are its own.
    sees : str
        What the adversary is shown.
    unwatched, no_guesses, unattacked : str
        Why nobody looks, nobody guesses who has what, nobody poisons; empty: somebody does.
    """

    row: str
    paper: str
    runs: str
    sees: str
    unwatched: str = ""
    no_guesses: str = ""
    unattacked: str = ""

    @property
    def experiments(self) -> tuple[str, ...]:
        """Its experiments: plain, watched, attacked, as far as there are such."""
        ends = ("", "" if self.unwatched else WATCHED, "" if self.unattacked else ATTACKED)
        return tuple(dict.fromkeys(f"{self.runs}{end}" for end in ends))


@cache
def paper_rows() -> dict[str, PaperRow]:
    """Return the rows in the order of the table."""
    told = yaml.safe_load(Path(__file__).with_name("rows.yaml").read_text(encoding="utf-8"))
    return {name: PaperRow(**{"runs": name, **own}) for name, own in told.items()}


def experiments() -> dict[str, dict[str, Any]]:
    """Return what each experiment sets, in the order in which they are run."""
    return STUDY.experiments


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return what ``--only`` can name: plain, watched and attacked runs, papers, rows and experiments."""
    there = tuple(experiments())
    ends = {"watched": WATCHED, "attacked": ATTACKED}
    found = {name: tuple(one for one in there if one.endswith(end)) for name, end in ends.items()}
    plain = tuple(one for one in there if not one.endswith((WATCHED, ATTACKED)))
    own = {f"row-{name}": row.experiments for name, row in paper_rows().items()}
    return {"plain": plain, **found, **own, **{name: (name,) for name in there}}
