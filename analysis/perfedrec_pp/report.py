"""The report of the study."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.papers.comparison_report import Report
from analysis.papers.document import Block
from analysis.papers.seeds import Runs
from analysis.perfedrec_pp.deciles import decile_tables
from analysis.perfedrec_pp.experiments import PAPER, experiments
from analysis.perfedrec_pp.figures import drawings
from analysis.perfedrec_pp.findings import claims
from analysis.perfedrec_pp.price import price_tables


def kind_of(experiment: str) -> str:
    """Return by what runs are told apart in the table of times."""
    setting = PAPER.setting_of(experiment)
    return f"{setting}, centralised" if PAPER.is_apart(experiment) else setting


def sections(runs: Runs) -> Iterator[Block]:
    """Yield what is told between figures and times."""
    yield from price_tables(runs)
    yield from decile_tables(runs)


REPORT = Report(
    paper=PAPER,
    beside="Beside the PerFedRec++ paper on Yelp.",
    about="The published code is not the paper's algorithm in several places, so there are two settings, compared "
    "in this order:",
    below="An epoch of a federated row is a round, in which 256 clients are asked; that of a centralised row is a pass "
    "over all data, so these are compared with others at their best validation epoch alone. Of Yelp only Table 4 is at "
    "hand.",
    drawings=drawings(),
    sections=sections,
    claims=claims,
    experiments=experiments(),
    kind="setting",
    kind_of=kind_of,
)
