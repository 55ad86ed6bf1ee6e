"""FedCL compared with the centralised row of its model, ours and as published: the paper's strongest claim."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.fedcl.plan import MODELS, PAPER, SETTINGS, WAYS
from analysis.papers.comparison import BEST, LAST, experiment_name
from analysis.papers.curves import reported_epochs, reported_score
from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.tables import DASH, format_mean
from analysis.papers.verdict import PerSeed, Runs, Verdict

SHOWN = ("HR@10", "nDCG@10")
_ABOUT = (
    "Each federated row at its best validation report, beside the centralised row of its model at its own. *Kept*: the "
    "one divided by the other, in percent, ours and of the printed numbers; with several seeds seed by seed. NCF is an "
    "MLP with cross-entropy where it is centralised, and two towers in the federated rows. A row whose best report is "
    "its last may not have converged."
)


def utility_kept(runs: Runs, setting: str, model: str, way: str, column: str) -> PerSeed:
    """Return the utility of a federated row in percent of its centralised counterpart, by seed."""
    ours = reported_score(PAPER, runs, experiment_name(setting, f"{MODELS[model]}-{way}"), column, BEST)
    central = reported_score(PAPER, runs, experiment_name(setting, MODELS[model]), column, BEST)
    return {seed: 100 * value / central[seed] for seed, value in ours.items() if central.get(seed)}


def printed_utility_kept(setting: str, model: str, words: str, column: str) -> float:
    """Return the utility kept according to the printed numbers, in percent."""
    table = PAPER.main_in(setting)
    ours, central = (PAPER.published.value_of(table, row, column) for row in (f"{model}+{words}", model))
    return 100 * ours / central


def has_converged(runs: Runs, experiment: str) -> bool:
    """Return whether every seed's best validation report comes before its last."""
    best, last = (reported_epochs(PAPER, runs, experiment, look) for look in (BEST, LAST))
    return bool(best) and all(at < last[seed] for seed, at in best.items())


def central_tables(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting with runs, the federated rows next to the centralised ones."""
    found = {setting: list(_rows(runs, setting)) for setting in SETTINGS}
    if not any(found.values()):
        return
    yield Heading(2, "Comparison with centralised training", "central")
    yield ParagraphBlock(_ABOUT)
    parts = ("federated", "centralised", "kept, %", "kept in print, %")
    columns = [
        GridColumn("row"),
        GridColumn("best is last"),
        *(GridColumn(column, parts) for column in SHOWN),
    ]
    for setting, rows in found.items():
        if rows:
            yield Heading(3, f"Setting {setting}", f"central-{setting}")
            yield Grid(f"Comparison with centralised training, {setting}", columns, rows)


def _rows(runs: Runs, setting: str) -> Iterator[list[GridCell]]:
    for model, central in MODELS.items():
        for words, way in WAYS.items():
            name = experiment_name(setting, f"{central}-{way}")
            if name in runs:
                said = "no" if has_converged(runs, name) else "yes"
                numbers = [
                    field for column in SHOWN for field in _numbers(runs, setting, model, words, column)
                ]
                yield [GridCell(f"{model}+{words}"), GridCell(said), *numbers]


def _numbers(runs: Runs, setting: str, model: str, words: str, column: str) -> Iterator[GridCell]:
    way, central = WAYS[words], experiment_name(setting, MODELS[model])
    yield format_mean(
        reported_score(PAPER, runs, experiment_name(setting, f"{MODELS[model]}-{way}"), column, BEST)
    )
    yield format_mean(reported_score(PAPER, runs, central, column, BEST))
    left = utility_kept(runs, setting, model, way, column)
    yield format_mean(left, digits=0) if left else GridCell(DASH, kind=Verdict.NOT_RUN.word)
    yield GridCell(f"{printed_utility_kept(setting, model, words, column):.0f}", kind="printed")
