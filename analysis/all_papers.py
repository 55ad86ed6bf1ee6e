"""Every recommender of all papers on the same data, splits and seeds, in one table.

python -m analysis.all_papers --data ../shared/data --out study/

The report has one table with a line per row, the missing runs, and every number as csv.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from analysis.papers import report
from analysis.papers.comparison import finding, read_by_seed, summary_value
from analysis.papers.document import Grid, GridCell, GridColumn, GridRow, Heading, ParagraphBlock, make_grid
from analysis.papers.study import PaperStudyFile, StudyCommand
from analysis.papers.verdict import PerSeed, Runs, mean
from gossiprec.base.rounding import difference
from gossiprec.figures.figure_files import Cell
from gossiprec.runs import Run

STUDY = PaperStudyFile(Path(__file__).with_name("all_papers") / "study.yaml")
WATCHED, ATTACKED = "-watched", "-attacked"
RATES = {"-slower": "a third of the rate", "": "its own rate", "-faster": "three times the rate"}
"""Learning rates that each row is tuned over, by the end of an experiment's name."""


@dataclass(frozen=True)
class PaperRow:
    """A row of the table, as in ``rows.yaml``.

    Attributes
    ----------
    row : str
        Label of the row.
    paper : str
        The paper of the method, or a paper that compares with it.
    runs : str
        The experiment that its own numbers come from.
    sees : str
        What the adversary is shown.
    unwatched, no_guesses, no_moves, unattacked : str
        Why there is no observer, no guess of memberships, no ``update-mia``, no poisoner; empty if there is one.
    """

    row: str
    paper: str
    runs: str
    sees: str
    unwatched: str = ""
    no_guesses: str = ""
    no_moves: str = ""
    unattacked: str = ""

    @property
    def experiments(self) -> tuple[str, ...]:
        """Its existing experiments at its own learning rate: plain, observed, attacked."""
        ends = ("", "" if self.unwatched else WATCHED, "" if self.unattacked else ATTACKED)
        return tuple(dict.fromkeys(f"{self.runs}{end}" for end in ends))


@cache
def paper_rows() -> dict[str, PaperRow]:
    """Return the rows in the order of the table."""
    return {name: PaperRow(**{"runs": name, **own}) for name, own in STUDY.read("rows").items()}


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments that each name of ``--only`` selects: plain, observed and attacked runs, rates, rows."""
    there = tuple(STUDY.experiments)
    ends = {"watched": WATCHED, "attacked": ATTACKED}
    found = {name: tuple(one for one in there if one.endswith(end)) for name, end in ends.items()}
    plain = tuple(dict.fromkeys(row.runs for row in paper_rows().values()))
    found["tuned"] = tuple(f"{name}{end}" for name in plain for end in RATES)
    own = {f"row-{name}": row.experiments for name, row in paper_rows().items()}
    return {"plain": plain, **found, **own, **{name: (name,) for name in there}}


Section = Mapping[str, Any]


def format_settings(scenario: Section) -> str:
    """Return model, recommender, training and protocol of a resolved scenario as text."""
    parts = (_model(scenario["model"]), _added(scenario), _training(scenario), _protocol(scenario))
    return "; ".join(part for part in parts if part)


def _model(model: Section) -> str:
    """Return a model's name and sizes."""
    sizes = [f"d = {model['dim']}"]
    sizes += (
        [f"layers {'-'.join(map(str, model['hidden']))}"] if isinstance(model.get("hidden"), list) else []
    )
    sizes += [f"{key} {model[key]}" for key in ("layers", "loss") if key in model]
    return f"{model['name']} ({', '.join(sizes)})"


def _added(scenario: Section) -> str:
    """Return the recommender and the policies, with the options that set the amount of noise."""
    recommender, found = scenario.get("recommender"), []
    if recommender:
        options = [f"{key} {recommender[key]:g}" for key in ("epsilon", "augmented") if key in recommender]
        found.append(recommender["name"] + (f" ({', '.join(options)})" if options else ""))
    for policy in scenario.get("policies", ()):
        scale = f" {policy['noise']} {policy['scale']:g}" if policy.get("scale") else ""
        found.append(f"{policy['name']}{scale}")
    return ", ".join(found)


def _training(scenario: Section) -> str:
    """Return the optimizer, its rate, the batches and the negatives."""
    training, batch = scenario["training"], scenario["training"]["batch_size"]
    batches = "full batches" if batch in (None, "full") else f"batches of {batch}"
    return f"{training['optimizer']} {training['learning_rate']:g}, {batches}, {_negatives(scenario)}"


def _negatives(scenario: Section) -> str:
    """Return the number and kind of negatives per positive, if they are drawn."""
    recommender = scenario.get("recommender") or {}
    if "local_negatives" in recommender:
        semi_hard = f" and {recommender['semi_hard']} semi-hard" if "semi_hard" in recommender else ""
        return f"{recommender['local_negatives']} local{semi_hard} negatives"
    if scenario["model"].get("loss") == "all":
        return "all items as negatives"
    number = scenario["training"]["negatives"]
    return f"{number} negative{'s' if number > 1 else ''}"


def _protocol(scenario: Section) -> str:
    """Return the number of rounds and epochs, the selected clients, and the aggregation."""
    protocol, each = scenario["protocol"], scenario["training"]["local_epochs"]
    if protocol["name"] == "central":
        return f"{protocol['epochs']} epochs"
    of = f"of {each} local epoch{'s' if each > 1 else ''}"
    if "wakes" in protocol:
        return f"{protocol['wakes']} wakes {of}"
    return ", ".join([f"{protocol['rounds']} rounds {of}", *_selection(protocol)])


def _selection(protocol: Section) -> Iterator[str]:
    """Yield the clients selected per round, the aggregation rule and the server."""
    if protocol.get("slice"):
        yield f"slices of {protocol['slice']}"
    elif protocol["participation"] < 1:
        yield f"{100 * protocol['participation']:g} % of the clients each"
    merge, server = protocol["merge"], protocol.get("server")
    yield str(merge["name"] if isinstance(merge, Mapping) else merge)
    if server:
        yield f"{server['name']} {server['learning_rate']:g} at the coordinator"


VALIDATION = "val_recall@20"
"""The metric that chooses reports."""
NEAR_BEST = 0.95


def community_number(run: Run, entry: str) -> float | None:
    """Return a number of the strongest community attack: ``max_aac``, ``upper_bound``, ``random_bound``."""
    found = [one for one in summary_value(run, "attacks") or () if not one["relevance"].startswith("mia-")]
    return max(found, key=lambda one: one["max_aac"])[entry] if found else None


@dataclass(frozen=True)
class MembershipRates:
    """Quality of membership guesses at their best threshold.

    Attributes
    ----------
    advantage : float
        True positive rate minus false positive rate of the guesses (Yeom et al., CSF 2018).
    threshold, precision, recall : float
    """

    advantage: float
    threshold: float
    precision: float
    recall: float


def best_membership_rates(run: Run) -> MembershipRates | None:
    """Return the best membership guesses of a run, or None if there are none."""
    found = [membership_advantage(one) for one in summary_value(run, "membership") or ()]
    return max(found, key=lambda one: one.advantage, default=None)


def membership_advantage(rates: Mapping[str, Any]) -> MembershipRates:
    """Return the advantage of the guesses in a summary; 0 if none of them is right."""
    accuracy, precision, recall = (rates[key] or 0.0 for key in ("accuracy", "precision", "recall"))
    if not precision:
        return MembershipRates(0.0, rates["threshold"], 0.0, 0.0)
    # with b the fraction of members, accuracy is R b + 1 - b - R b (1/P - 1)
    slope = 1 - 2 * recall + recall / precision
    had = (1 - accuracy) / slope if slope else 1.0
    false = recall * had * (1 / precision - 1) / (1 - had) if had < 1 else 0.0
    return MembershipRates(recall - false, rates["threshold"], precision, recall)


def best_advantage(run: Run) -> float | None:
    """Return the advantage of the best guesses."""
    found = best_membership_rates(run)
    return found.advantage if found else None


def epochs_per_client(run: Run, upto: float = np.inf) -> float:
    """Return the mean number of local epochs per client until a given time, or the passes of a central run."""
    updates = run.events("update")
    total = float(updates["epochs"][updates["time"] <= upto].sum())
    return total if is_central(run) else total / summary_value(run, "nodes")


def is_central(run: Run) -> bool:
    """Return whether one place holds all data."""
    return bool(run.scenario["protocol"]["name"] == "central")


def bytes_per_epoch(run: Run, direction: str) -> float | None:
    """Return the bytes per client and local epoch, ``up`` or ``down`` (equal in gossip); None for central runs."""
    by_way = summary_value(run, "bytes") or {}
    total = by_way.get(direction, by_way.get("sent"))
    n_epochs = epochs_per_client(run) * summary_value(run, "nodes")
    return None if is_central(run) or total is None else total / n_epochs


def rounds_to_near_best(run: Run) -> tuple[int, float] | None:
    """Return the round and the local epochs per client at which validation first reached 95 % of its best."""
    columns = run.metrics
    own = columns["metric"] == VALIDATION
    if not own.any():
        return None
    values = columns["value"][own]
    first = int(np.argmax(difference(values, NEAR_BEST * values.max()) >= 0))
    return int(columns["round"][own][first]), epochs_per_client(run, float(columns["time"][own][first]))


def best_validation(run: Run) -> float | None:
    """Return the best Recall@20 on validation items of all reports."""
    columns = run.metrics
    values = columns["value"][columns["metric"] == VALIDATION]
    return float(values.max()) if values.size else None


METRICS = ("recall@20", "full_ndcg@20")
EXPOSURES = ("er@5", "er@20")
LEVELS = ("popularity", "random")
ITEMS = {
    "update-mia": ("update-mia", "item_auc"),
    "item sets": ("reconstruction", "reconstruction_f1"),
    "item sets, popular": ("reconstruction", "reconstruction_popularity_f1"),
}
"""What the observers find of items: label of a number to attack and measure."""
UPLOADS = {
    "contributed sets": ("contribution", "leaks", "cda"),
    "uploaded vectors": ("told_vectors", "leaks", "likeliest", "cda_of_means"),
}
"""User uploads in addition to models, and the summary entry of the attack accuracy that they allow."""
_LONGEST = 200
"""Maximum number of characters of a reason."""
COLUMNS = [GridColumn(title, tuple(parts or ())) for title, parts in STUDY.plan["columns"].items()]
Numbers = dict[str, PerSeed]
"""Label of a number to its values by seed."""


def _utility(seeds: Mapping[int, Run], metric: str) -> PerSeed:
    return read_by_seed(seeds, summary_value, "utility", metric)


@dataclass(frozen=True)
class TableLine:
    """A row with its runs.

    Attributes
    ----------
    row : PaperRow
    runs, reasons : mapping
        Runs of the whole study by experiment and seed, and the reasons for missing ones.
    """

    row: PaperRow
    runs: Runs
    reasons: Mapping[str, str]

    def runs_by_seed(self, suffix: str = "") -> Mapping[int, Run]:
        """Return the row's plain runs by seed, or its runs with a suffix of the experiment's name."""
        return self.runs.get(f"{self.row.runs}{suffix}", {})

    @property
    def best_rate(self) -> str | None:
        """The end of the rate with the best validation, mean over the seeds that all rates have; None without one."""
        seen = {end: read_by_seed(self.runs_by_seed(end), best_validation) for end in RATES}
        common = set.intersection(*(set(values) for values in seen.values()))
        return max(seen, key=lambda end: mean({seed: seen[end][seed] for seed in common})) if common else None

    def utility(self, end: str = "") -> Numbers:
        """Return utility by metric at the best validation report."""
        return {metric: _utility(self.runs_by_seed(end), f"{metric}[validated]") for metric in METRICS}

    def numbers(self) -> Numbers:
        """Return all numbers of the row."""
        plain, attacked = self.runs_by_seed(), self.runs_by_seed(ATTACKED)
        watched = {} if self.row.unwatched else self.runs_by_seed(WATCHED)
        found, rate = self.utility(), self.best_rate
        tuned = {} if rate is None else self.utility(rate)
        found |= {f"{metric}, tuned{rate}": values for metric, values in tuned.items()}
        for metric in EXPOSURES:
            found[metric] = _utility(attacked, f"{metric}[validated]")
            found[f"{metric} at the end"] = _utility(attacked, metric)
        for bound in ("max_aac", "upper_bound", "random_bound"):
            found[bound] = read_by_seed(watched, community_number, bound)
        found["advantage"] = read_by_seed(watched, best_advantage)
        for name, attack_and_measure in ITEMS.items():
            found[name] = read_by_seed(watched, finding, *attack_and_measure)
        for way in ("up", "down"):
            found[f"bytes {way}"] = read_by_seed(plain, bytes_per_epoch, way)
        near = {seed: at for seed, run in plain.items() if (at := rounds_to_near_best(run)) is not None}
        found["rounds to 95 %"] = {seed: float(at[0]) for seed, at in near.items()}
        found["local epochs to 95 %"] = {seed: at[1] for seed, at in near.items()}
        found["local epochs"] = read_by_seed(plain, epochs_per_client)
        for clock in ("wall", "processor"):
            found[f"{clock} seconds"] = read_by_seed(plain, summary_value, f"{clock}_seconds")
        return found

    def cells(self) -> GridRow:
        """Return the line of the table."""
        numbers, plain = self.numbers(), self.runs_by_seed()
        some = next(iter(plain.values()), None)
        settings = report.dash_cell(self._missing(""))
        if some is not None:
            epochs = f"{mean(numbers['local epochs']):.3g} local epochs"
            settings = GridCell(format_settings(some.scenario), (epochs,))
        return [
            GridCell(self.row.row, (self.row.paper,)),
            settings,
            *(report.mean_cell(numbers[metric], 4) for metric in METRICS),
            *self._tuned(),
            *self._exposure(numbers),
            self._communities(numbers),
            self._guesses(numbers),
            report.mean_cell(numbers["update-mia"], 3, why=_short(self.row.no_moves)),
            self._item_sets(numbers),
            self.row.sees,
            *(report.mean_cell(numbers[f"bytes {way}"], 0) for way in ("up", "down")),
            self._near_best(numbers, some),
            report.mean_cell(
                numbers["wall seconds"],
                0,
                *([] if some is None else [f"executor {summary_value(some, 'executor')}"]),
            ),
            report.mean_cell(numbers["processor seconds"], 0),
        ]

    def _tuned(self) -> Iterator[GridCell]:
        rate = self.best_rate
        if rate is None:
            yield report.dash_cell("not all of three learning rates were run")
            yield report.dash_cell()
        else:
            first, second = self.utility(rate).values()
            yield report.mean_cell(first, 4, RATES[rate])
            yield report.mean_cell(second, 4)

    def _exposure(self, numbers: Numbers) -> Iterator[GridCell]:
        for metric in EXPOSURES:
            last = numbers[f"{metric} at the end"]
            why = self.row.unattacked or self._missing(ATTACKED) if metric == EXPOSURES[0] else ""
            small = (f"{mean(last):.3f} at the end",) if last else ()
            yield report.mean_cell(numbers[metric], 3, *small, why=_short(why))

    def _communities(self, numbers: Numbers) -> GridCell:
        """Return the accuracy of the attack with its bounds, and from user uploads other than models, if any."""
        bounds = (("upper", "upper_bound"), ("by guessing", "random_bound"))
        small = [f"{words} {mean(numbers[key]):.3f}" for words, key in bounds if numbers[key]]
        for words, path in UPLOADS.items():
            found = read_by_seed(self.runs_by_seed(), summary_value, *path)
            small += [f"by {words} {mean(found):.3f}"] if found else []
        why = self.row.unwatched or self._missing(WATCHED)
        return report.mean_cell(numbers["max_aac"], 3, *small, why=_short(why))

    def _guesses(self, numbers: Numbers) -> GridCell:
        found = map(best_membership_rates, self.runs_by_seed(WATCHED).values())
        small = [
            f"precision {one.precision:.2f}, recall {one.recall:.2f}, rho {one.threshold:g}"
            for one in found
            if one is not None
        ]
        return report.mean_cell(numbers["advantage"], 3, *small[:1], why=_short(self.row.no_guesses))

    def _item_sets(self, numbers: Numbers) -> GridCell:
        popular = numbers["item sets, popular"]
        small = (f"as many popular items {mean(popular):.3f}",) if popular else ()
        return report.mean_cell(numbers["item sets"], 3, *small)

    def _near_best(self, numbers: Numbers, some: Run | None) -> GridCell:
        unit = "wake" if some is not None and "wakes" in some.scenario["protocol"] else "round"
        rounds = numbers["rounds to 95 %"]
        small = (f"{unit} {mean(rounds):.0f}",) if rounds else ()
        return report.mean_cell(numbers["local epochs to 95 %"], 0, *small)

    def _missing(self, end: str) -> str:
        """Return why an experiment of the row has no run; an empty text if it has one."""
        return _short(self.reasons.get(f"{self.row.runs}{end}", ""))


def _short(reason: str) -> str:
    return " ".join(reason.split())[:_LONGEST]


def make_table(rows: Iterable[PaperRow], runs: Runs, reasons: Mapping[str, str]) -> Grid:
    """Return the table: all rows, and below them the orders that need no training."""
    fields = [TableLine(row, runs, reasons).cells() for row in rows]
    width = sum(len(column.titles) for column in COLUMNS)
    for order in LEVELS:
        numbers = (baseline_value(order, metric, runs) for metric in METRICS)
        shown = [order, "no training", *(f"{mean(own):.4f}" if own else report.DASH for own in numbers)]
        fields.append([*shown, *[report.DASH] * (width - len(shown))])
    return make_grid("All recommenders", COLUMNS, fields)


def baseline_value(order: str, metric: str, runs: Runs) -> PerSeed:
    """Return a metric of an order that needs no training, by seed; it is the same in every run that has it."""
    found: PerSeed = {}
    for seeds in runs.values():
        found = {**_utility(seeds, f"{metric}[{order}]"), **found}
    return dict(sorted(found.items()))


class TableReport(report.StudyReport):
    """The report with one table of all recommenders."""

    csv_header = ("row", "number", "seed", "value")

    def make_pages(self, study: report.ReportInput, figures: Path) -> report.Pages:
        """Return the only page; it has no pictures."""
        data = ", ".join(sorted({str(run.scenario["dataset"]["name"]) for run in study.finished}))
        blocks = [
            study.opening_paragraph(
                f"Every recommender of all papers on {data or 'no data yet'}: same split, same seeds. {{progress}}"
            ),
            ParagraphBlock(f"{STUDY.plan['about']} {report.INTERVALS}"),
            Heading(2, "All recommenders", "table"),
            make_table(paper_rows().values(), study.runs, study.reasons),
            *report.missing_blocks(study.reasons),
        ]
        return {"report": ("Every recommender in one table", blocks)}

    def csv_rows(self, study: report.ReportInput) -> Iterator[list[Cell]]:
        """Yield each number of the table by row and seed."""
        found = {
            name: TableLine(row, study.runs, study.reasons).numbers() for name, row in paper_rows().items()
        }
        for order in LEVELS:
            found[order] = {metric: baseline_value(order, metric, study.runs) for metric in METRICS}
        for name, numbers in found.items():
            for number, values in numbers.items():
                for seed, value in values.items():
                    yield [name, number, seed, value]


REPORT = TableReport()

if __name__ == "__main__":
    StudyCommand(STUDY, selectable_names(), REPORT).main()
