"""The report of the study."""

from __future__ import annotations

from analysis.papers.comparison_report import StudyReport
from analysis.pdc_frs.claims import judge_claims
from analysis.pdc_frs.contribution_leakage import leakage_tables
from analysis.pdc_frs.experiments import PAPER, experiments
from analysis.pdc_frs.figures import paper_figures

REPORT = StudyReport(
    paper=PAPER,
    beside="Beside the PDC-FRS paper on MovieLens-1M and Amazon Office.",
    about="The text says that a random fifth of the items is for test, where everything lies far above the print; so "
    "each is run in named settings, compared in this order:",
    below="FedMF is FCF under encryption and has its numbers: one method stands in both rows. The paper's word vectors "
    "are not named: titles are compared by TF-IDF.",
    drawings=paper_figures(),
    sections=leakage_tables,
    claims=judge_claims,
    experiments=experiments(),
    kind="setting",
    kind_of=PAPER.setting_of,
)
