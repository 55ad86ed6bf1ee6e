"""The report of the study."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.papers.comparison_report import StudyReport
from analysis.papers.document import DocumentBlock
from analysis.papers.seed_statistics import Runs
from analysis.perfedrec_pp.activity_groups import activity_tables
from analysis.perfedrec_pp.claims import judge_claims
from analysis.perfedrec_pp.experiments import PAPER, experiments
from analysis.perfedrec_pp.federation_cost import federation_cost_tables
from analysis.perfedrec_pp.figures import paper_figures


def timing_group(experiment: str) -> str:
    """Return the group of a run in the table of times."""
    setting = PAPER.setting_of(experiment)
    return f"{setting}, centralised" if PAPER.is_apart(experiment) else setting


def extra_sections(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the sections between figures and times."""
    yield from federation_cost_tables(runs)
    yield from activity_tables(runs)


REPORT = StudyReport(
    paper=PAPER,
    beside="Beside the PerFedRec++ paper on Yelp.",
    about="The published code is not the paper's algorithm in several places, so there are two settings, compared "
    "in this order:",
    below="An epoch of a federated row is a round, in which 256 clients are asked; that of a centralised row is a pass "
    "over all data, so these are compared with others at their best validation epoch alone. Of Yelp only Table 4 is at "
    "hand.",
    drawings=paper_figures(),
    sections=extra_sections,
    claims=judge_claims,
    experiments=experiments(),
    kind="setting",
    kind_of=timing_group,
)
