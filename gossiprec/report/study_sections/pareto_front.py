"""Section: utility against attack accuracy of every combination, with the Pareto-optimal ones marked."""

from __future__ import annotations

from gossiprec.base.errors import LogError
from gossiprec.figures.study.pareto_front import ParetoPoint, pareto_points, utility_quantity
from gossiprec.figures.study.quantity import Quantity
from gossiprec.report.blocks import Block, Chart, ChartAxis, ChartSeries, Section, block_or_choice
from gossiprec.report.study import ReportStudy

ORDER = 40
NOTE = (
    "Points further right and lower are better. Filled points are Pareto optimal and connected by a line; "
    "bars are 95 % t-intervals over seeds. Click a point to list its runs."
)


def section(study: ReportStudy) -> Section | None:
    """Return a chart per attack, or None if the study has no utility or no attack."""
    table = study.table
    try:
        utility = utility_quantity(table)
        attacks = table.quantities("max_aac")
    except LogError:  # the measure belongs to something else
        return None
    found: dict[str, Block] = {}
    for attack in attacks:
        if len(table.values[attack].keys() & table.values[utility].keys()) > 1:
            found[attack.words()] = _chart(study, utility, attack)
    return Section("Utility against privacy", [block_or_choice("Attack", found)]) if found else None


def _chart(study: ReportStudy, utility: Quantity, attack: Quantity) -> Chart:
    spots = pareto_points(study.table, utility, attack)
    best = [spot for spot in spots if spot.is_unbeaten]
    front = ChartSeries(
        "Pareto optimal",
        [[s.utility.mean for s in best]],
        [s.attack.mean for s in best],
        faint=True,
        mark="step",
    )
    details = {study.name_of(spot.point): study.runs_behind(spot.point, [utility, attack]) for spot in spots}
    axes = (
        [ChartAxis(utility.unit, percent=utility.is_share)],
        ChartAxis(attack.unit, percent=attack.is_share),
    )
    return Chart(
        f"{attack.words()} against {utility.words()}",
        *axes,
        [front, _dots(study, spots)],
        "dot",
        NOTE,
        details=details,
    )


def _dots(study: ReportStudy, spots: list[ParetoPoint]) -> ChartSeries:
    utility, attack = [spot.utility for spot in spots], [spot.attack for spot in spots]
    return ChartSeries(
        "combinations",
        [[u.mean for u in utility]],
        [a.mean for a in attack],
        [a.low for a in attack],
        [a.high for a in attack],
        [u.low for u in utility],
        [u.high for u in utility],
        [study.name_of(spot.point) for spot in spots],
        [not spot.is_unbeaten for spot in spots],
    )
