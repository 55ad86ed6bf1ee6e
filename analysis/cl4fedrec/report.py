"""The report of the study."""

from __future__ import annotations

from analysis.cl4fedrec.experiments import PAPER, Experiment, experiments
from analysis.cl4fedrec.figures import drawings
from analysis.cl4fedrec.findings import claims
from analysis.cl4fedrec.item_vectors import item_vectors
from analysis.papers.comparison_report import Report

REPORT = Report(
    paper=PAPER,
    beside="Beside arXiv 2403.20107 (CL4FedRec, rCL4FedRec) on MovieLens-1M.",
    about="The text does not say how the data are split but by 80/20, how updates are aggregated, nor how clients "
    "train; so each is run in named settings, compared in this order:",
    below="PSMU and HiCS are reconstructions: no code of them was at hand.",
    drawings=drawings(),
    sections=item_vectors,
    claims=claims,
    experiments=experiments(),
    kind="loop",
    kind_of=lambda name: Experiment.read(name).loop,
)
