"""Every recommender of all papers on the same data, splits and seeds, in one table.

python -m analysis.all_papers --data ../shared/data --out study/
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from analysis.papers.study_file import PaperStudyFile

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))
WATCHED, ATTACKED = "-watched", "-attacked"


@dataclass(frozen=True)
class PaperRow:
    """A row of the table, as in ``rows.yaml``.

    Attributes
    ----------
    row : str
        Label of the row.
    paper : str
        The paper of the method, or a paper that compares with it.
    runs : str
        The experiment that its own numbers come from.
    sees : str
        What the adversary is shown.
    unwatched, no_guesses, unattacked : str
        Why there is no observer, no guess of memberships, no poisoner; empty if there is one.
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
        """Its existing experiments: plain, observed, attacked."""
        ends = ("", "" if self.unwatched else WATCHED, "" if self.unattacked else ATTACKED)
        return tuple(dict.fromkeys(f"{self.runs}{end}" for end in ends))


@cache
def paper_rows() -> dict[str, PaperRow]:
    """Return the rows in the order of the table."""
    return {name: PaperRow(**{"runs": name, **own}) for name, own in STUDY.read("rows").items()}


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments that each name of ``--only`` selects: plain, observed and attacked runs, papers, rows."""
    there = tuple(STUDY.experiments)
    ends = {"watched": WATCHED, "attacked": ATTACKED}
    found = {name: tuple(one for one in there if one.endswith(end)) for name, end in ends.items()}
    plain = tuple(one for one in there if not one.endswith((WATCHED, ATTACKED)))
    own = {f"row-{name}": row.experiments for name, row in paper_rows().items()}
    return {"plain": plain, **found, **own, **{name: (name,) for name in there}}
