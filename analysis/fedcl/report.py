"""The report of the study."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.fedcl.central_comparison import central_tables
from analysis.fedcl.claims import judge_claims
from analysis.fedcl.experiments import MODELS, PAPER, experiments
from analysis.fedcl.figures import paper_figures
from analysis.fedcl.user_vector_leakage import leakage_tables
from analysis.papers.comparison_report import StudyReport
from analysis.papers.document import DocumentBlock
from analysis.papers.seed_statistics import Runs


def timing_group(experiment: str) -> str:
    """Return the group of a run in the table of times."""
    setting = PAPER.setting_of(experiment)
    method = experiment.removeprefix(f"{setting}-")
    if PAPER.is_apart(experiment):
        return f"{setting}, {method} centralised"
    model = method.partition("-")[0]
    return f"{setting}, {model if model in MODELS.values() else 'gru4rec'} federated"


def extra_sections(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the sections between figures and times."""
    yield from central_tables(runs)
    yield from leakage_tables(runs)


REPORT = StudyReport(
    paper=PAPER,
    beside="Beside the FedCL paper on Amazon Beauty and MovieLens-1M.",
    about="Both data sets are others than the paper's, so that orders say more than levels do:",
    below="An epoch of a federated row is as many rounds of 16 clients as make up the number of clients, 1,398 on "
    "Beauty and 377 on MovieLens-1M; its reports are numbered by rounds. An epoch of a centralised row is a pass over "
    "all data, so these rows are compared with others at their best validation report alone. *NCF* in the federated "
    "rows is two towers, which score by a dot product as the paper's loss wants it.",
    drawings=paper_figures(),
    sections=extra_sections,
    claims=judge_claims,
    experiments=experiments(),
    kind="what",
    kind_of=timing_group,
)
