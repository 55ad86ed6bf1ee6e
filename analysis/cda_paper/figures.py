"""Figures 2 to 7 of the paper, redrawn from the runs of the study, and the experiments of every table and figure.

References
----------
arXiv:2306.08929: Figures 2 and 3 (accuracy over adversaries, full models and Share less), 4 and 5 (Share less: leakage,
and leakage against utility), 6 (differential privacy), 7 (momentum).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes

import analysis.cda_paper as ex
from analysis.cda_paper import PROTOCOLS, STUDY, dataset_name
from analysis.cda_paper.measures import AttackNumber, RunNumber, report_cells, single_attack, utility_number
from analysis.papers.figures import PaperFigure
from analysis.papers.verdict import Runs
from gossiprec.figures import style
from gossiprec.figures.attack_cdf import ACCURACY, AT_OR_BELOW, to_percent_series
from gossiprec.figures.attack_selection import accuracy_distribution, attack_curves
from gossiprec.figures.style import MAX_COLUMNS, Axis, Series, plot_dots, plot_line, plot_steps

MOVIELENS_TABLES = tuple(f"table{place}" for place in range(4, 11))
"""Tables that ``movielens-tables`` selects, with the table of switches."""
FULL, LESS = "full models", "Share less"
MAX_AAC = Axis("Max AAC (%)")
EPSILON_LABELS = [*(f"{epsilon:,}" for epsilon in ex.EPSILONS), "∞"]
Coordinate = float | RunNumber


@dataclass(frozen=True)
class FigureLine:
    """A line of a figure: its name, its experiments, and the function for its points."""

    name: str
    experiments: tuple[str, ...]
    series: Callable[[Runs], Series]


def _figure(
    caption: str,
    lines: Mapping[str, Sequence[FigureLine]],
    x: Axis,
    y: Axis,
    *,
    random: Mapping[str, Sequence[AttackNumber]] | None = None,
    also: tuple[str, ...] = (),
    **look: Any,
) -> PaperFigure:
    """Return a figure of the paper, given the lines of its panels by their titles.

    `random` has the attacks of which the random bound is marked, by panel; the first measured one is used. `also` are
    experiments with which the figure is compared, and `look` the arguments of
    :class:`gossiprec.figures.style.PanelLook`.
    """
    shown = [name for own in lines.values() for line in own for name in line.experiments]

    def panels(runs: Runs) -> dict[str, list[Series]]:
        return {title: [line.series(runs) for line in own] for title, own in lines.items()}

    def guess(runs: Runs, title: str) -> list[float]:
        attacks = (random or {}).get(title, ())
        bounds = [attack.with_quantity("random_bound").mean_over_seeds(runs) for attack in attacks]
        return [bound for bound in bounds if np.isfinite(bound)][:1]

    look = {"line": plot_line, "n_columns": MAX_COLUMNS, **look}
    return PaperFigure(caption, tuple(dict.fromkeys((*shown, *also))), panels, x, y, look, guess=guess)


@cache
def paper_figures() -> dict[str, PaperFigure]:
    """Return the figures by name."""
    plan = STUDY.read("figures")
    whole, leakage = plan["whole"], plan["leakage"]
    return {
        "fig2": _distributions(
            "Figure 2. Accuracy over the adversaries at the round of the largest AAC, full models.",
            {title: _attacks(experiments) for title, experiments in whole.items()},
        ),
        "fig3": _distributions(
            "Figure 3. The same under Share less; Foursquare: the first 146 users, K = 5.",
            {title: _attacks(one["less"], one["k"]) for title, one in leakage.items()},
        ),
        "fig4": _leakage(leakage),
        "fig5": _trade_off(leakage),
        "fig6": _privacy(),
        "fig7": _momentum(),
    }


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments that each name of ``--only`` selects: tables, figures, data sets and experiments."""
    tables: dict[str, dict[str, None]] = {}
    for cell in report_cells():
        if cell.measure is not None:
            name = cell.printed.table.removesuffix("-bounds")
            tables.setdefault(name, {}).update(dict.fromkeys(cell.measure.experiments))
    movielens = {
        name for table in MOVIELENS_TABLES for name in tables[table] if dataset_name(name) == "ml-100k"
    } | set(ex.variant_experiments().values())
    return {
        **{name: tuple(serving) for name, serving in tables.items()},
        "movielens-tables": tuple(name for name in STUDY.experiments if name in movielens),
        "switches": tuple(ex.variant_experiments().values()),
        **{name: drawing.experiments for name, drawing in paper_figures().items()},
        **{
            data: tuple(name for name in STUDY.experiments if dataset_name(name) == data)
            for data in STUDY.plan["data"]
        },
        **{name: (name,) for name in STUDY.experiments},
    }


def _attacks(experiments: Mapping[str, str], k: int = 50) -> dict[str, AttackNumber]:
    return {PROTOCOLS[protocol]: single_attack(experiment, k) for protocol, experiment in experiments.items()}


def _line(name: str, points: Sequence[tuple[Coordinate, Coordinate]]) -> FigureLine:
    """Return a line through points given by numbers and measures; unmeasured points are left out."""
    measures = [one for point in points for one in point if isinstance(one, RunNumber)]

    def series(runs: Runs) -> Series:
        at = [
            [one.mean_over_seeds(runs) if isinstance(one, RunNumber) else one for one in point]
            for point in points
        ]
        return _known(name, at)

    return FigureLine(name, tuple(name for one in measures for name in one.experiments), series)


def _known(name: str, points: Iterable[Sequence[float]]) -> Series:
    known = [point for point in points if np.isfinite(point).all()]
    return Series(name, [x for x, _ in known], [y for _, y in known])


def _distributions(caption: str, attacks: Mapping[str, Mapping[str, AttackNumber]]) -> PaperFigure:
    return _figure(
        caption,
        {title: [_spread(name, one) for name, one in own.items()] for title, own in attacks.items()},
        ACCURACY,
        AT_OR_BELOW,
        random={title: list(own.values()) for title, own in attacks.items()},
        line=plot_steps,
        is_random_upright=True,
        order=list(PROTOCOLS.values()),
    )


def _spread(name: str, attack: AttackNumber) -> FigureLine:
    """Return the distribution of accuracy over the adversaries of all seeds."""

    def series(runs: Runs) -> Series:
        found = [attack.adversary_accuracies(run) for run in runs.get(attack.experiment, {}).values()]
        own = [accuracies for one in found if one is not None for accuracies in one[1]]
        return (
            to_percent_series(accuracy_distribution(own, float("nan")), name) if own else Series(name, (), ())
        )

    return FigureLine(name, (attack.experiment,), series)


def _leakage(settings: Mapping[str, Any]) -> PaperFigure:
    panels, random = {}, {}
    for title, one in settings.items():
        both = {FULL: _attacks(one["full"], one["k"]), LESS: _attacks(one["less"], one["k"])}
        panels[title] = [_line(name, list(enumerate(attacks.values()))) for name, attacks in both.items()]
        random[title] = [attack for attacks in both.values() for attack in attacks.values()]

    def dress(axes: Axes) -> None:
        axes.set_xticks(range(len(PROTOCOLS)), [name.replace("-", "-\n") for name in PROTOCOLS.values()])

    return _figure(
        "Figure 4. Effect of Share less on leakage; Foursquare: the first 146 users, K = 5.",
        panels,
        Axis("", (-0.5, 2.5)),
        MAX_AAC,
        random=random,
        line=plot_dots,
        is_joined=False,
        order=(FULL, LESS),
        dress=dress,
    )


def _trade_off(settings: Mapping[str, Any]) -> PaperFigure:
    """Return utility against leakage, with an arrow from full models to Share less."""
    panels = {}
    for title, one in settings.items():
        panels[f"{title}: {one['metric'].upper()}"] = [
            _line(
                name,
                [
                    (utility_number(own[key], one["metric"]), single_attack(own[key], one["k"]))
                    for own in (one["full"], one["less"])
                ],
            )
            for key, name in PROTOCOLS.items()
        ]
    return _figure(
        "Figure 5. Leakage against utility: from full models (filled) to Share less (open).",
        panels,
        Axis("utility (%), arrow: to Share less"),
        MAX_AAC,
        line=_arrow,
        is_joined=False,
        order=list(PROTOCOLS.values()),
    )


def _arrow(axes: Axes, series: Series, look: style.LineStyle) -> None:
    plot_dots(axes, Series(series.name, series.x[:1], series.y[:1]), look)
    for x, y in zip(series.x[1:], series.y[1:], strict=True):
        kwargs = {**look.kwargs(), "linestyle": "none", "markersize": 6}
        axes.plot(x, y, **{**kwargs, "markerfacecolor": "white", "markeredgecolor": look.color})
        arrow = {"arrowstyle": "->", "color": look.color, "shrinkA": 4, "shrinkB": 4}
        axes.annotate("", xytext=(series.x[0], series.y[0]), xy=(x, y), arrowprops=arrow)


def _privacy() -> PaperFigure:
    panels, random = {}, {}
    for protocol in ("fedavg", "rand-gossip"):
        points = [ex.dp_experiment(protocol, epsilon) for epsilon in (*ex.EPSILONS, None)]
        random[PROTOCOLS[protocol]] = [single_attack(point) for point in points]
        panels[PROTOCOLS[protocol]] = [
            _line("Max AAC", [(place, single_attack(point)) for place, point in enumerate(points)]),
            _line("HR@20", [(place, utility_number(point)) for place, point in enumerate(points)]),
        ]
    return _figure(
        "Figure 6. DP-SGD: leakage and utility over the privacy budget, MovieLens-100k, GMF.",
        panels,
        Axis("epsilon (∞: no noise, no clipping)", (-0.3, len(EPSILON_LABELS) - 0.7)),
        Axis("%"),
        random=random,
        also=(ex.ML_FEDAVG_LESS, ex.ML_RAND_LESS),
        dress=lambda axes: axes.set_xticks(range(len(EPSILON_LABELS)), EPSILON_LABELS),
    )


def _momentum() -> PaperFigure:
    observers = {
        "FedAvg, coordinator": single_attack(ex.ML_FEDAVG),
        "Rand-Gossip, single": single_attack(ex.ML_RAND),
        "Rand-Gossip, 20 % colluders": AttackNumber(ex.ML_RAND, "coalition-20%"),
    }
    betas = (0.0, 0.5, 0.9, 0.99)
    return _figure(
        "Figure 7. Momentum: average attack accuracy over rounds, MovieLens-100k, GMF.",
        {
            title: [_curve(own.experiment, own.observer, beta) for beta in betas]
            for title, own in observers.items()
        },
        Axis("round"),
        Axis("AAC (%)"),
        random={title: [own] for title, own in observers.items()},
        dress=lambda axes: axes.set_xlim(left=0),
    )


def _curve(experiment: str, observer: str, beta: float) -> FigureLine:
    """Return the line of AAC by round, averaged over seeds."""
    name, attack = f"momentum {beta:g}", AttackNumber(experiment, observer, beta)

    def series(runs: Runs) -> Series:
        by_round: dict[float, list[float]] = {}
        for run in runs.get(experiment, {}).values():
            for key, columns in attack_curves(run, "").items():
                if attack.matches_key(key):
                    for at, aac in zip(columns["round"].tolist(), columns["aac"].tolist(), strict=True):
                        by_round.setdefault(float(at), []).append(100 * aac)
        return _known(name, [(at, float(np.mean(values))) for at, values in sorted(by_round.items())])

    return FigureLine(name, (experiment,), series)
