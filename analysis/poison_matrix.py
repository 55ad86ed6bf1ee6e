"""Poison matrix: every attack under every rule, by recommender, in federation and gossip.

python -m analysis.poison_matrix --data ../shared/data --out study/

The report has a heat map of the success of attacks, and tables of exposure, loss of recall and the cost of rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.papers import report
from analysis.papers.comparison import read_by_seed, summary_value
from analysis.papers.document import DocumentBlock, GridRow, Heading, ImageBlock, ParagraphBlock, make_grid
from analysis.papers.figures import draw_heat_map
from analysis.papers.study import PaperStudyFile, StudyCommand
from analysis.papers.verdict import PerSeed, Runs, confidence_half_width, format_mean_text, mean
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.figures.style import LABEL_PT, PAGE_IN, add_caption

NO_ATTACK, NO_RULE = "no-attack", "no-rule"
DEMOTE = "demote-"
"""Beginning of the names of attacks that demote items; the rest is the attack."""
LISTS = ("networks", "recommenders", "rules", "attacks")
UNTARGETED = ("clusterattack", "spattack")
"""Attacks without targets, by name."""
BUFFER = 8
"""Models that an inbox of gossip holds."""
LIMIT = "attackers.0.clip_shared"
"""A client's change of the shared weights, which a poisoner exceeds by no more than its boost."""
DECILES = tuple(range(1, 11))


class MatrixFile(PaperStudyFile):
    """The study file, in which lists of networks, recommenders, rules and attacks stand for their combinations."""

    @property
    def content(self) -> dict[str, Any]:
        """The study with an experiment for every possible combination, no-attack cells first."""
        return _expand(self.path)

    @property
    def cells(self) -> list[str]:
        """All combinations, also impossible ones; demotion has lists of its own."""
        study = self.read("study")
        lists = [
            [study[part] for part in LISTS],
            [*(study["demotion"][part] for part in LISTS[:-1]), demotions()],
        ]
        return ["/".join(names) for own in lists for names in product(*own)]

    def why_refused(self, cell: str) -> str | None:
        """Return why a combination is not possible, or None if it is."""
        rules = self.plan["refused"]
        return next((str(rule["why"]) for rule in rules if fnmatch(cell, rule["cells"])), None)

    def overrides(self, cell: str) -> dict[str, Any]:
        """Return the scenario keys of a combination."""
        lists = self.read("study")
        network, recommender, rule, attack = cell.split("/")
        sets = {**lists["networks"][network], **lists["recommenders"][recommender]}
        chosen, attacker = lists["rules"][rule].get(network), lists["attacks"][attack.removeprefix(DEMOTE)]
        if attack.startswith(DEMOTE):
            attacker = {**attacker, "aim": "demote", "targets": lists["demotion"]["targets"]}
        if network == "federation":
            sets["protocol"] = {**sets["protocol"], "merge": chosen}
        elif chosen is not None:
            sets["policies"] = [{"name": "robust-merge", "rule": chosen, "buffer": BUFFER}]
        if attacker["name"] not in UNTARGETED:
            sets |= {"evaluate.metrics": ["recall@20", "er@20"], "evaluate.targets": "attacked"}
        limit = sets.pop(LIMIT, None)
        if limit is not None:
            attacker = {**attacker, "clip_shared": limit * attacker.get("boost", 1)}
        return {**sets, "attackers": [attacker]}


@cache
def _expand(path: Path) -> dict[str, Any]:
    study = MatrixFile(path)
    possible = [cell for cell in study.cells if study.why_refused(cell) is None]
    possible.sort(key=lambda cell: not cell.endswith(NO_ATTACK))
    plain = {key: value for key, value in study.read("study").items() if key not in (*LISTS, "demotion")}
    return {**plain, "axes": {"experiment": {"values": {cell: study.overrides(cell) for cell in possible}}}}


STUDY = MatrixFile(Path(__file__).with_name("poison_matrix") / "study.yaml")


def names_of(part: str) -> list[str]:
    """Return the names in one of the lists of the study."""
    return list(STUDY.read("study")[part])


def demotions() -> list[str]:
    """Return the names of the attacks that demote items, no attack first."""
    return [DEMOTE + attack for attack in STUDY.read("study")["demotion"]["attacks"]]


def is_targeted(attack: str) -> bool:
    """Return whether an attack promotes items."""
    return attack != NO_ATTACK and not attack.startswith(UNTARGETED)


def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments that each name of ``--only`` selects: those of a list entry, or one."""
    experiments = tuple(STUDY.experiments)
    found = {
        name: tuple(one for one in experiments if one.split("/")[place] == name)
        for place, part in enumerate(LISTS)
        for name in names_of(part)
    }
    found["demotion"] = tuple(one for one in experiments if f"/{DEMOTE}" in one)
    return {**{name: own for name, own in found.items() if own}, **{one: (one,) for one in experiments}}


def measured(runs: Runs, cell: str, measure: str) -> PerSeed:
    """Return a measure of recommendations at the end of a cell's runs, by seed."""
    return read_by_seed(runs.get(cell, {}), summary_value, "utility", measure)


def lost_percent(runs: Runs, cell: str, reference: str, measure: str = "recall@20") -> PerSeed:
    """Return the recall that a cell lacks compared with another, in percent of the latter, seed by seed."""
    own, full = measured(runs, cell, measure), measured(runs, reference, measure)
    return {seed: 100 * (1 - own[seed] / full[seed]) for seed in own if full.get(seed)}


def loss(runs: Runs, cell: str) -> PerSeed:
    """Return the recall that an attack takes, in percent of the recall under the same rule without it, by seed."""
    return lost_percent(runs, cell, "/".join([*cell.split("/")[:3], NO_ATTACK]))


def success(runs: Runs, cell: str) -> PerSeed:
    """Return the success of an attack in percent, by seed: users shown a target, or recall lost without targets."""
    if not is_targeted(cell.split("/")[3]):
        return loss(runs, cell)
    return {seed: 100 * value for seed, value in measured(runs, cell, "er@20").items()}


def demotion(runs: Runs, cell: str) -> PerSeed:
    """Return the exposure of targets that an attack takes, in percent of that under the same rule without it, by seed.

    Without an attack it is the exposure: of the users without a target, the percentage who are shown it, mean over
    targets.
    """
    *start, attack = cell.split("/")
    if attack == DEMOTE + NO_ATTACK:
        return {seed: 100 * value for seed, value in measured(runs, cell, "er@20").items()}
    return lost_percent(runs, cell, "/".join([*start, DEMOTE + NO_ATTACK]), "er@20")


def cost(runs: Runs, network: str, recommender: str, rule: str, measure: str = "recall@20") -> PerSeed:
    """Return the recall that a rule costs without an attack, in percent of the recall without the rule, by seed."""
    cell = f"{network}/{recommender}/{rule}/{NO_ATTACK}"
    return lost_percent(runs, cell, f"{network}/{recommender}/{NO_RULE}/{NO_ATTACK}", measure)


def mean_by_seed(parts: Iterable[PerSeed]) -> PerSeed:
    """Return the mean over parts of each seed that all of them have."""
    own = [part for part in parts if part]
    seeds = set.intersection(*(set(part) for part in own)) if own else set()
    return {seed: float(np.mean([part[seed] for part in own])) for seed in sorted(seeds)}


CellNumber = Callable[[Runs, str], PerSeed]
"""A number of a combination, by seed: :func:`success`, :func:`loss` or :func:`demotion`."""


def percent_of(
    number: CellNumber, runs: Runs, network: str, recommenders: Sequence[str], rule: str, attack: str
) -> PerSeed:
    """Return a number of a cell, for no attack (of promotion) the cost of the rule; mean over recommenders, by seed."""
    if attack == NO_ATTACK:
        return mean_by_seed(cost(runs, network, one, rule) for one in recommenders)
    return mean_by_seed(number(runs, f"{network}/{one}/{rule}/{attack}") for one in recommenders)


def rules_of(network: str, *, demotes: bool = False) -> list[str]:
    """Return the rules that some recommender can have in a network, or those against which items are demoted."""
    cells = (cell.split("/") for cell in STUDY.experiments if cell.startswith(f"{network}/"))
    found = {rule for *_, rule, attack in cells if attack.startswith(DEMOTE) == demotes}
    return [rule for rule in names_of("rules") if rule in found]


_ROW_IN, _HEAD_IN, _LABEL_IN, _GAP_IN, _FOOT_IN = 0.185, 1.4, 1.2, 0.12, 0.74
LABELS = {NO_ATTACK: "cost of the rule", DEMOTE + NO_ATTACK: "shown, no attack"}


@dataclass(frozen=True)
class HeatMap:
    """A picture of all attacks and rules.

    Attributes
    ----------
    number : CellNumber
    recommenders : sequence of str
    networks, attacks : sequence of str
    """

    number: CellNumber
    recommenders: Sequence[str]
    networks: Sequence[str]
    attacks: Sequence[str]

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.number.__name__}_{self.recommenders[0] if len(self.recommenders) == 1 else 'all'}"

    @property
    def caption(self) -> str:
        """The caption."""
        own = self.recommenders
        text = STUDY.plan["captions"][self.number.__name__]
        return str(text.format(of="recommenders and seeds" if len(own) > 1 else f"seeds, {own[0]}"))

    def value(self, runs: Runs, network: str, rule: str, attack: str) -> PerSeed:
        """Return a cell by seed."""
        return percent_of(self.number, runs, network, self.recommenders, rule, attack)

    def rules(self, network: str) -> list[str]:
        """Return the rules of a network."""
        return rules_of(network, demotes=self.number is demotion)

    def block(self, runs: Runs, figures: Path) -> ImageBlock:
        """Draw the picture, and return it."""
        write_figure(figures / self.name, MAP_HEADER, map_rows(runs, self), partial(draw_map, runs, self))
        return ImageBlock(f"figures/{self.name}.svg", self.caption, f"figures/{self.name}.csv")


MAP_HEADER = ("network", "rule", "attack", "seeds", "percent", "half_width")


def map_rows(runs: Runs, shown: HeatMap) -> Iterator[list[Cell]]:
    """Yield every number of a heat map with half of its 95 % interval over seeds."""
    for network in shown.networks:
        for rule, attack in product(shown.rules(network), shown.attacks):
            found = shown.value(runs, network, rule, attack)
            if found:
                half = confidence_half_width(found)[1] - mean(found)
                yield [network, rule, attack, len(found), round(mean(found), 2), round(half, 2)]


def draw_map(runs: Runs, shown: HeatMap) -> Figure:
    """Return the heat map: attacks by rules, federation next to gossip."""
    attacks, networks = shown.attacks, shown.networks
    widths = [len(shown.rules(network)) for network in networks]
    height = _HEAD_IN + _ROW_IN * len(attacks) + _FOOT_IN
    figure = Figure(figsize=(PAGE_IN, height))
    step = (PAGE_IN - _LABEL_IN - _GAP_IN - 0.35) / sum(widths)
    left = _LABEL_IN
    for network, width in zip(networks, widths, strict=True):
        box = (left, _FOOT_IN, step * width, _ROW_IN * len(attacks))
        axes = figure.add_axes((box[0] / PAGE_IN, box[1] / height, box[2] / PAGE_IN, box[3] / height))
        values = np.array(
            [
                [mean(shown.value(runs, network, rule, attack)) for rule in shown.rules(network)]
                for attack in attacks
            ]
        )
        _draw_cells(axes, values, shown.rules(network), attacks, is_first=network == networks[0])
        axes.annotate(
            network, (0, -0.5), (0, 0.92 * _HEAD_IN * 72), textcoords="offset points", fontweight="bold"
        )
        left += step * width + _GAP_IN
    add_caption(figure, shown.caption)
    return figure


def _draw_cells(
    axes: Axes, values: Any, rules: Sequence[str], attacks: Sequence[str], *, is_first: bool
) -> None:
    """Draw one panel of the heat map with its rules, the first one also with its attacks."""
    blank, size = [report.DASH] * len(values), LABEL_PT - 1.5
    draw_heat_map(axes, values, blank, colours="Oranges", white_above=75, fontsize=size)
    axes.set_xticks(range(len(rules)), rules, rotation=60, ha="left", rotation_mode="anchor")
    labels = [LABELS.get(attack, attack.removeprefix(DEMOTE)) if is_first else "" for attack in attacks]
    axes.set_yticks(range(len(values)), labels)
    axes.tick_params(pad=2)
    untargeted = sum(not attack.startswith(UNTARGETED) for attack in attacks) - 0.5
    for line in (0.5, untargeted):
        axes.axhline(line, color="black", linewidth=0.8)


NUMBERS = ("recall@20", "er@20", *(f"recall@20[activity={decile}]" for decile in DECILES))


def rule_rows(runs: Runs, network: str) -> Iterator[GridRow]:
    """Yield a row per rule: mean exposure by attacks on an item, mean loss by all, the worst of both, and the cost."""
    recommenders, attacks = names_of("recommenders"), [one for one in names_of("attacks") if one != NO_ATTACK]
    targeted = [attack for attack in attacks if is_targeted(attack)]
    for rule in rules_of(network):
        row: GridRow = [rule]
        for number, own in ((success, targeted), (loss, attacks)):
            found = {attack: percent_of(number, runs, network, recommenders, rule, attack) for attack in own}
            row += [report.mean_cell(mean_by_seed(found.values()), 0), _worst(found)]
        for part in ("", "[activity=1]", "[activity=10]"):
            costs = (cost(runs, network, one, rule, f"recall@20{part}") for one in recommenders)
            row.append(report.mean_cell(mean_by_seed(costs), 0))
        yield row


def _worst(found: Mapping[str, PerSeed]) -> str:
    """Return the attack with the largest mean, and the mean."""
    means = {attack: mean(own) for attack, own in found.items() if own}
    worst = max(means, key=lambda attack: means[attack], default=None)
    return f"{worst} {format_mean_text(found[worst], 0)}" if worst else report.DASH


def decile_rows(runs: Runs, network: str) -> Iterator[GridRow]:
    """Yield a row per rule: recall without an attack by decile of activity, mean over recommenders."""
    for rule in rules_of(network):
        cells = [f"{network}/{one}/{rule}/{NO_ATTACK}" for one in names_of("recommenders")]
        deciles = (
            mean_by_seed(measured(runs, cell, f"recall@20[activity={decile}]") for cell in cells)
            for decile in DECILES
        )
        yield [rule, *(report.mean_cell(own, 3) for own in deciles)]


class MatrixReport(report.StudyReport):
    """The report: the heat map, rules compared, deciles, times, and combinations that are not possible."""

    csv_header = ("network", "recommender", "rule", "attack", "number", "seed", "value")

    def make_pages(self, study: report.ReportInput, figures: Path) -> report.Pages:
        """Return the only page, and draw its pictures."""
        runs, recommenders = study.runs, names_of("recommenders")
        blocks: list[DocumentBlock] = [
            study.opening_paragraph("Every attack under every rule. {progress}"),
            ParagraphBlock(describe_seeds(runs)),
        ]
        single = [one for one in recommenders if any(f"/{one}/" in cell for cell in runs)]
        every = names_of("networks"), names_of("attacks")
        maps = [HeatMap(number, recommenders, *every) for number in (success, loss)]
        maps += [HeatMap(success, [one], *every) for one in single]
        demoted = STUDY.read("study")["demotion"]
        maps.append(HeatMap(demotion, demoted["recommenders"], demoted["networks"], demotions()))
        blocks += [one.block(runs, figures) for one in maps if runs]
        titles = STUDY.plan["columns"]
        for network in names_of("networks"):
            deciles = ("rule", *(f"decile {decile}" for decile in DECILES))
            blocks += [
                Heading(2, f"Rules in {network}", network),
                ParagraphBlock(report.INTERVALS),
                make_grid(f"Rules in {network}", titles, rule_rows(runs, network)),
                make_grid(f"Recall without an attack in {network}", deciles, decile_rows(runs, network)),
            ]
        blocks += report.run_time_blocks(
            runs, study.planned, STUDY.experiments, "network and recommender", _group_of
        )
        refused = [(rule["cells"], rule["why"]) for rule in STUDY.plan["refused"]]
        blocks += [
            Heading(2, "Not possible", "refused"),
            make_grid("Not possible", ("combinations", "why"), refused),
        ]
        return {"report": ("Which rule stops which attack", blocks)}

    def csv_rows(self, study: report.ReportInput) -> Iterator[list[Cell]]:
        """Yield every number by combination and seed."""
        for cell, number in product(STUDY.experiments, NUMBERS):
            for seed, value in measured(study.runs, cell, number).items():
                yield [*cell.split("/"), number, seed, value]


def describe_seeds(runs: Runs) -> str:
    """Return which seeds all experiments have, and how many experiments others have."""
    counts = Counter(seed for own in runs.values() for seed in own)
    each = (f"seed {seed}: {count} of {len(STUDY.experiments)}" for seed, count in sorted(counts.items()))
    return f"Finished combinations: {'; '.join(each) or 'none'}."


def _group_of(experiment: str) -> str:
    return " ".join(experiment.split("/")[:2])


if __name__ == "__main__":
    StudyCommand(STUDY, selectable_names(), MatrixReport()).main()
