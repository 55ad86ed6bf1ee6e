"""Figures 2 to 7 of the paper, redrawn from the runs of the study.

References
----------
arXiv:2306.08929: Figures 2 and 3 (accuracy over adversaries, full models and Share less), 4 and 5 (Share less: leakage,
and leakage against utility), 6 (differential privacy), 7 (momentum).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.experiments import Experiment, checkins, dp
from analysis.cda_paper.measures import MAIN_RULE, Attack, Measure, Runs, Utility, mean
from analysis.cda_paper.panels import Axis, Panel, Series, draw_panels
from gossiprec.figures import style
from gossiprec.figures.series import attack_curves

PROTOCOLS = {"FedAvg": "fedavg", "Rand-Gossip": "rand_gossip", "Pers-Gossip": "pers_gossip"}
MOVIELENS = {"FedAvg": ex.ML_FEDAVG, "Rand-Gossip": ex.ML_RAND, "Pers-Gossip": ex.ML_PERS}
MOVIELENS_LESS = {
    "FedAvg": ex.ML_FEDAVG_LESS,
    "Rand-Gossip": ex.ML_RAND_LESS,
    "Pers-Gossip": ex.ML_PERS_LESS,
}
FULL, LESS = "full models", "Share less"
EPSILON_LABELS = [*(f"{epsilon:,}" for epsilon in ex.EPSILONS), "∞"]
ACCURACY = "attack accuracy of an adversary (%)"

Settings = dict[str, tuple[dict[str, Experiment], dict[str, Experiment], int, str]]
"""Panel title to full-model and Share-less experiments by protocol, K, and the utility that is shown."""


def settings() -> Settings:
    """Return the settings in which full models and Share less are compared."""
    found: Settings = {"MovieLens-100k, GMF": (MOVIELENS, MOVIELENS_LESS, 50, "hr@20")}
    for label, model, metric in (("GMF", "gmf", "hr@20"), ("PRME-G", "prme", "f1@20")):
        full, less = (
            {
                name: checkins("foursquare146", key, model, share_less=is_less)
                for name, key in PROTOCOLS.items()
            }
            for is_less in (False, True)
        )
        found[f"Foursquare 146, {label}"] = (full, less, 5, metric)
    return found


def alone(experiment: Experiment, k: int = 50) -> Attack:
    """Return the attack by the coordinator, or by single nodes where there is none."""
    return Attack(experiment, "coordinator" if "fedavg" in experiment.name else "single", k=k)


def draw_figures(runs: Runs, folder: Path) -> dict[str, list[Path]]:
    """Draw every figure for which there are runs; return the files of each."""
    makers: dict[str, Callable[[Runs, Path], list[Path]]] = {
        "fig2": _distributions_full,
        "fig3": _distributions_less,
        "fig4": _leakage,
        "fig5": _trade_off,
        "fig6": _privacy,
        "fig7": _momentum,
    }
    found = {name: make(runs, folder / name) for name, make in makers.items()}
    return {name: paths for name, paths in found.items() if paths}


def _distributions_full(runs: Runs, stem: Path) -> list[Path]:
    wanted = {"MovieLens-100k, GMF": (MOVIELENS, 50)}
    for label, model in (("GMF", "gmf"), ("PRME-G", "prme")):
        whole = {name: checkins("foursquare", key, model) for name, key in PROTOCOLS.items()}
        wanted[f"Foursquare, {label}"] = (whole, 50)
    return _distributions(runs, stem, wanted)


def _distributions_less(runs: Runs, stem: Path) -> list[Path]:
    return _distributions(runs, stem, {title: (less, k) for title, (_, less, k, _) in settings().items()})


def _distributions(
    runs: Runs, stem: Path, wanted: dict[str, tuple[dict[str, Experiment], int]]
) -> list[Path]:
    panels = []
    for title, (experiments, k) in wanted.items():
        series, random = [], float("nan")
        for name, experiment in experiments.items():
            attack = alone(experiment, k)
            found = [attack.accuracies(run, MAIN_RULE) for run in runs.get(experiment.name, {}).values()]
            values = [100 * spread[1] for spread in found if spread is not None]
            if values:
                levels, counts = np.unique(np.concatenate(values), return_counts=True)
                share = 100 * np.cumsum(counts) / counts.sum()
                series.append(Series(name, [levels[0], *levels], [0.0, *share]))
                random = mean(attack.of("random_bound").per_seed(runs))
        if series:
            panels.append(Panel(title, series, random))
    if not panels:
        return []
    top = max(max(series.x) for panel in panels for series in panel.series)
    return draw_panels(
        stem,
        panels,
        x=Axis(ACCURACY, (0, max(20.0, 1.03 * top))),
        y=Axis("adversaries at or below (%)", (0, 101)),
        line=_steps,
        is_random_upright=True,
        names=tuple(PROTOCOLS),
    )


def _steps(axes: Axes, series: Series, look: style.LineStyle) -> None:
    marked = np.unique(np.searchsorted(series.y, (10, 30, 50, 70, 90))).tolist()
    axes.plot(series.x, series.y, drawstyle="steps-post", markevery=marked, **look.kwargs())


def _leakage(runs: Runs, stem: Path) -> list[Path]:
    panels = []
    for title, (full, less, k, _) in settings().items():
        series = []
        for name, experiments in ((FULL, full), (LESS, less)):
            points = [
                (place, mean(alone(experiments[protocol], k).per_seed(runs)))
                for place, protocol in enumerate(PROTOCOLS)
            ]
            series += _series(name, points)
        if series:
            known = _run(runs, full, less)[0]
            random = mean(alone(known, k).of("random_bound").per_seed(runs))
            panels.append(Panel(title, series, random))
    if not panels:
        return []

    def dress(axes: Axes) -> None:
        axes.set_xticks(range(len(PROTOCOLS)), [name.replace("-", "-\n") for name in PROTOCOLS])

    return draw_panels(
        stem,
        panels,
        x=Axis("", (-0.5, 2.5)),
        y=Axis("Max AAC (%)"),
        line=_dots,
        is_joined=False,
        names=(FULL, LESS),
        dress=dress,
    )


def _run(runs: Runs, *groups: dict[str, Experiment]) -> list[Experiment]:
    """Return the experiments of which there are runs."""
    return [e for group in groups for e in group.values() if runs.get(e.name)]


def _series(name: str, points: Sequence[tuple[float, float]]) -> list[Series]:
    known = [(a, b) for a, b in points if np.isfinite(a) and np.isfinite(b)]
    return [Series(name, [a for a, _ in known], [b for _, b in known])] if known else []


def _dots(axes: Axes, series: Series, look: style.LineStyle) -> None:
    axes.plot(series.x, series.y, **{**look.kwargs(), "linestyle": "none", "markersize": 6})


def _trade_off(runs: Runs, stem: Path) -> list[Path]:
    """Draw utility against leakage: an arrow leads from full models to Share less."""
    panels = []
    for title, (full, less, k, metric) in settings().items():
        series = []
        for name in PROTOCOLS:
            points = [
                (
                    mean(Utility(group[name], metric).per_seed(runs)),
                    mean(alone(group[name], k).per_seed(runs)),
                )
                for group in (full, less)
            ]
            series += _series(name, points)
        if series:
            panels.append(Panel(f"{title}: {metric.upper()}", series))
    if not panels:
        return []
    return draw_panels(
        stem,
        panels,
        x=Axis("utility (%), arrow: to Share less"),
        y=Axis("Max AAC (%)"),
        line=_arrow,
        is_joined=False,
        names=tuple(PROTOCOLS),
    )


def _arrow(axes: Axes, series: Series, look: style.LineStyle) -> None:
    kwargs = {**look.kwargs(), "linestyle": "none", "markersize": 6}
    axes.plot(series.x[:1], series.y[:1], **kwargs)
    if len(series.x) > 1:
        axes.plot(
            series.x[1:],
            series.y[1:],
            **{**kwargs, "markerfacecolor": "white", "markeredgecolor": look.color},
        )
        axes.annotate(
            "",
            xytext=(series.x[0], series.y[0]),
            xy=(series.x[1], series.y[1]),
            arrowprops={"arrowstyle": "->", "color": look.color, "shrinkA": 4, "shrinkB": 4},
        )


def _privacy(runs: Runs, stem: Path) -> list[Path]:
    panels = []
    for title, key in (("FedAvg", "fedavg"), ("Rand-Gossip", "rand_gossip")):
        points = [dp(key, epsilon) for epsilon in (*ex.EPSILONS, None)]
        lines: dict[str, Sequence[Measure]] = {
            "Max AAC": [alone(point) for point in points],
            "HR@20": [Utility(point) for point in points],
        }
        series = [
            one
            for name, measures in lines.items()
            for one in _series(name, [(i, mean(m.per_seed(runs))) for i, m in enumerate(measures)])
        ]
        known = [point for point in points if runs.get(point.name)]
        if series:
            panels.append(Panel(title, series, mean(alone(known[0]).of("random_bound").per_seed(runs))))
    if not panels:
        return []
    return draw_panels(
        stem,
        panels,
        x=Axis("epsilon (∞: no noise, no clipping)", (-0.3, len(EPSILON_LABELS) - 0.7)),
        y=Axis("%"),
        line=_line,
        dress=lambda axes: _ticks(axes, EPSILON_LABELS),
    )


def _ticks(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_xticks(range(len(labels)), labels)


def _line(axes: Axes, series: Series, look: style.LineStyle) -> None:
    axes.plot(series.x, series.y, markevery=max(1, len(series.x) // 6), **look.kwargs())


def _from_zero(axes: Axes) -> None:
    axes.set_xlim(left=0)


def _momentum(runs: Runs, stem: Path) -> list[Path]:
    panels = []
    wanted = (
        ("FedAvg, coordinator", ex.ML_FEDAVG, "coordinator"),
        ("Rand-Gossip, single", ex.ML_RAND, "single"),
        ("Rand-Gossip, 20 % colluders", ex.ML_RAND, "coalition-20%"),
    )
    for title, experiment, observer in wanted:
        series = []
        for beta in (0.0, 0.5, 0.9, 0.99):
            attack = Attack(experiment, observer, beta)
            series += _series(f"momentum {beta:g}", _curve(runs, attack))
        if series:
            random = mean(Attack(experiment, observer).of("random_bound").per_seed(runs))
            panels.append(Panel(title, series, random))
    if not panels:
        return []
    return draw_panels(
        stem,
        panels,
        x=Axis("round"),
        y=Axis("AAC (%)"),
        line=_line,
        dress=_from_zero,
    )


def _curve(runs: Runs, attack: Attack) -> list[tuple[float, float]]:
    """Return AAC (percent) by round, the mean over seeds."""
    by_round: dict[float, list[float]] = {}
    for run in runs.get(attack.experiment.name, {}).values():
        for key, columns in attack_curves(run, "").items():
            if attack.fits(key.observer, key.relevance, key.momentum, key.community_size, MAIN_RULE):
                for at, aac in zip(columns["round"].tolist(), columns["aac"].tolist(), strict=True):
                    by_round.setdefault(float(at), []).append(100 * aac)
    return [(at, float(np.mean(values))) for at, values in sorted(by_round.items())]
