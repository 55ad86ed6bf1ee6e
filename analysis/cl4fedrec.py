"""The study of CL4FedRec and rCL4FedRec (arXiv 2403.20107) on MovieLens-1M, compared with the paper's numbers.

python -m analysis.cl4fedrec --data ../shared/data --out study/

The report has the figures, the uniformity of item vectors, and claims beyond the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path

import numpy as np

from analysis.papers import comparison, figures
from analysis.papers.claims import Evidence, SettingEvidence
from analysis.papers.comparison import (
    LAST,
    experiment_name,
    metric_by_epoch,
    reported_score,
    seed_differences,
)
from analysis.papers.item_vectors import cosines_by_group, uniformity_tables
from analysis.papers.report import PaperReport
from analysis.papers.study import PaperStudyFile, StudyCommand
from analysis.papers.verdict import PerSeed, Runs, mean
from gossiprec.base.rounding import difference
from gossiprec.figures.style import Axis

STUDY = PaperStudyFile(Path(__file__).with_name("cl4fedrec") / "study.yaml")
PAPER = comparison.load_comparison(STUDY)
SETTINGS, TABLE_ROWS, ARMS = PAPER.settings, PAPER.rows, STUDY.plan["arms"]
RULES: dict[str, str] = ARMS["rules"]
ATTACKS: dict[str, str] = ARMS["attacks"]
"""Labels of aggregation rules and of attacks."""
SYNTHETIC_USERS: dict[float, str] = ARMS["synthetic_users"]
STEPS: dict[float, str] = ARMS["steps"]
STEPS_ATTACKED: dict[float, str] = ARMS["steps_attacked"]
"""Method by value of an option."""


def defence_methods(attack: str) -> dict[str, str]:
    """Return the methods that combine an attack with each defence, by the defence's label."""
    found: dict[str, str] = ARMS["exposure"][attack]
    return found


N_BINS = 40
EXPOSURE = Axis("users shown it (%)", (-2.0, 102.0))


@cache
def paper_figures() -> dict[str, figures.PaperFigure]:
    """Return the figures by name, setting by setting."""
    found: dict[str, figures.PaperFigure] = {}
    for setting in SETTINGS:
        for table in TABLE_ROWS:
            found[f"{table}-{setting}"] = figures.table_curves(PAPER, setting, table)
        for attack, words in ATTACKS.items():
            methods = defence_methods(attack)
            found[f"exposure-{attack}-{setting}"] = figures.method_curves(
                setting,
                f"{words}, a thousandth of the clients poison: exposure of the least popular item by epoch, {setting}. "
                "Rules and regulariser are combined with CL4FedRec; the others have no defence.",
                methods,
                {f"ER@{k}": f"er@{k}" for k in (5, 10, 20)},
                EXPOSURE,
                n_columns=3,
            )
        found[f"correlation-{setting}"] = figures.method_curves(
            setting,
            f"A-hum, a thousandth of the clients poison: exposure by epoch and alpha of the correlation, {setting}.",
            {f"alpha {alpha:g}": method for alpha, method in ARMS["correlation"].items()},
            {f"ER@{k}": f"er@{k}" for k in (5, 20)},
            EXPOSURE,
        )
        found[f"sensitivity-users-{setting}"] = _sensitivity(
            setting, "Synthetic users", "synthetic users", SYNTHETIC_USERS, {}
        )
        found[f"sensitivity-steps-{setting}"] = _sensitivity(
            setting, "Steps of the regulariser at the end of an epoch", "steps", STEPS, STEPS_ATTACKED
        )
        found[f"uniformity-{setting}"] = _uniformity(setting)
    return figures.drawable_figures(found, STUDY.experiments)


def _sensitivity(
    setting: str, title: str, label: str, methods: Mapping[float, str], attacked: Mapping[float, str]
) -> figures.PaperFigure:
    def panels(runs: Runs) -> dict[str, list[figures.SeedLine]]:
        def over(column: str, own: Mapping[float, str]) -> list[figures.SeedLine]:
            values = {
                float(x): reported_score(PAPER, runs, experiment_name(setting, method), column, LAST)
                for x, method in own.items()
            }
            return [figures.seed_line("rCL4FedRec", values)]

        found = {f"{column}, last epoch": over(column, methods) for column in PAPER.metrics}
        return {**found, "ER@5 under A-hum, last epoch": over("er@5", attacked)} if attacked else found

    return figures.setting_figure(
        f"{title}: rCL4FedRec at the last epoch, {setting}.",
        setting,
        (*methods.values(), *attacked.values()),
        panels,
        Axis(label, (0.0, None)),
        Axis("%"),
        {"n_columns": 3},
        drawn=("rcl4fedrec", *attacked.values()),
    )


def _uniformity(setting: str) -> figures.PaperFigure:
    rows = TABLE_ROWS["table2"]

    def panels(runs: Runs) -> dict[str, list[figures.SeedLine]]:
        return {
            row: list(_cosine_lines(runs, experiment_name(setting, method))) for row, method in rows.items()
        }

    return figures.setting_figure(
        f"Item vectors at the end: cosines of pairs, first seed, {setting}. A peak at 1 is a narrow cone.",
        setting,
        rows.values(),
        panels,
        Axis("cosine of two items", (-1.0, 1.0)),
        Axis("density"),
        {"n_columns": 3, "dress": lambda axes: axes.set_xticks((-1, 0, 1), ("−1", "0", "1"))},
    )


def _cosine_lines(runs: Runs, experiment: str) -> Iterator[figures.SeedLine]:
    kept = next((run.version for run in runs.get(experiment, {}).values()), {})
    if not kept:
        return
    edges = np.linspace(-1, 1, N_BINS + 1)
    for name, cosines in cosines_by_group(kept["items"], kept["popularity"]).items():
        density, _ = np.histogram(cosines, bins=edges, density=True)
        yield figures.SeedLine(name, ((edges[:-1] + edges[1:]) / 2).tolist(), density.tolist())


EXPOSED, HIDDEN = 0.5, 0.05
"""ER@5 above which an item counts as promoted to all users, and below which as not promoted."""


def _claims() -> dict[str, SettingEvidence]:
    """Return the evidence of the claims beyond the tables' orders."""
    shown = (
        f"the least popular item is shown to more than half of the users (ER@5 above {EXPOSED} at some epoch)"
    )
    hidden = f"it is shown to hardly any user (ER@5 below {HIDDEN} at every epoch)"
    exposed, unexposed = partial(_exposure, bound=EXPOSED, sign=1), partial(_exposure, bound=HIDDEN, sign=-1)
    found: dict[str, SettingEvidence] = {}
    for attack, words in ATTACKS.items():
        found |= {
            f"{words}, against Original: {shown}": partial(exposed, method=f"{attack}-original"),
            f"{words}, against CL4FedRec undefended: {shown}": partial(exposed, method=f"{attack}-none"),
            f"{words}: contrastive learning makes the attack worse": partial(
                _contrast_exposure, attack=attack
            ),
            f"{words}, under HiCS: {hidden}": partial(unexposed, method=f"{attack}-hics"),
            f"{words}, under Regularizer: {hidden}": partial(unexposed, method=f"{attack}-regulariser"),
        }
    return {
        **found,
        "Krum and Median cost at least a quarter of recall": partial(
            _cost, rules=("krum", "median"), share=0.75, sign=-1
        ),
        "Trimmed Mean and HiCS cost less than a tenth of recall": partial(
            _cost, rules=("trimmed-mean", "hics"), share=0.9, sign=1
        ),
    }


def _exposure(runs: Runs, setting: str, *, method: str, bound: float, sign: int) -> Evidence:
    """Yield the largest ER@5 over epochs, with its margin over a bound on the claimed side."""
    largest = _largest(runs, experiment_name(setting, method))
    attack = next(attack for attack in ATTACKS if method.startswith(attack))
    undefended = _largest(runs, experiment_name(setting, f"{attack}-none"))
    without = f" ({mean(undefended):.3f} undefended)" if undefended and sign < 0 else ""
    margins = {seed: sign * difference(value, bound) for seed, value in largest.items()}
    yield f"largest ER@5 {mean(largest):.3f}{without}", margins


def _contrast_exposure(runs: Runs, setting: str, *, attack: str) -> Evidence:
    """Yield the mean ER@5 over epochs with and without the contrastive losses, with its difference."""
    with_contrast, without = (
        {
            seed: float(np.mean([*metric_by_epoch(run, "er@5").values()]))
            for seed, run in runs.get(experiment_name(setting, f"{attack}-{method}"), {}).items()
        }
        for method in ("none", "original")
    )
    means = f"{mean(with_contrast):.3f} by CL4FedRec, {mean(without):.3f} by Original"
    yield f"mean ER@5 over epochs {means}", seed_differences(with_contrast, without)


def _largest(runs: Runs, experiment: str) -> PerSeed:
    """Return the largest ER@5 over epochs, by seed."""
    curves = {seed: metric_by_epoch(run, "er@5") for seed, run in runs.get(experiment, {}).items()}
    return {seed: max(by_epoch.values()) for seed, by_epoch in curves.items() if by_epoch}


def _cost(runs: Runs, setting: str, *, rules: tuple[str, ...], share: float, sign: int) -> Evidence:
    """Yield the recall lost to a rule at the last epoch, with its margin over a fraction on the claimed side."""
    plain = reported_score(PAPER, runs, experiment_name(setting, "cl4fedrec"), "Recall@20", LAST)
    for rule in rules:
        name = experiment_name(setting, f"cl4fedrec-{rule}")
        with_rule = reported_score(PAPER, runs, name, "Recall@20", LAST)
        excess = seed_differences(with_rule, {seed: share * own for seed, own in plain.items()})
        ratio = mean({seed: with_rule[seed] / plain[seed] for seed in excess})
        words = f"{RULES[rule]}: {100 * (1 - ratio):.0f} % of recall lost at the last epoch"
        yield words, {seed: sign * by for seed, by in excess.items()}


REPORT = PaperReport(
    STUDY,
    PAPER,
    paper_figures(),
    partial(uniformity_tables, PAPER, TABLE_ROWS["table2"]),
    lambda experiment: PAPER.setting_of(experiment).partition("-")[2],
    _claims(),
)

if __name__ == "__main__":
    StudyCommand(STUDY, comparison.selectable_names(STUDY), REPORT).main()
