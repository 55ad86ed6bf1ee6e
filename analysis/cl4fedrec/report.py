"""The report of the study."""

from __future__ import annotations

from analysis.cl4fedrec.claims import judge_claims
from analysis.cl4fedrec.experiments import PAPER, ExperimentName, experiments
from analysis.cl4fedrec.figures import paper_figures
from analysis.cl4fedrec.uniformity_table import uniformity_tables
from analysis.papers.comparison_report import StudyReport

REPORT = StudyReport(
    paper=PAPER,
    beside="Beside arXiv 2403.20107 (CL4FedRec, rCL4FedRec) on MovieLens-1M.",
    about="The text does not say how the data are split but by 80/20, how updates are aggregated, nor how clients "
    "train; so each is run in named settings, compared in this order:",
    below="PSMU and HiCS are reconstructions: no code of them was at hand.",
    drawings=paper_figures(),
    sections=uniformity_tables,
    claims=judge_claims,
    experiments=experiments(),
    kind="loop",
    kind_of=lambda name: ExperimentName.read(name).loop,
)
