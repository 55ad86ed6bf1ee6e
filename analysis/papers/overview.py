"""Overview and times of a report: a summary of the study, and the duration of its runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from analysis.papers.comparison import LAST, Comparison, belongs_to, experiment_name
from analysis.papers.curves import baseline_score, reported_epochs, reported_score
from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.printed_orders import count_order_verdicts, measured_reporting_points, printed_orders
from analysis.papers.report_parts import format_clock
from analysis.papers.seed_statistics import Runs
from analysis.papers.tables import format_epochs, format_mean
from analysis.papers.verdict import HELD, NOT_HELD, NOT_MEASURED, UNDECIDED, Verdict


def overview_blocks(paper: Comparison, runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting, the reference compared with popularity and the paper, and the number of orders that hold."""
    yield Heading(2, "In short", "short")
    found = [setting for setting in paper.settings if any(belongs_to(name, setting) for name in runs)]
    if not found:
        yield ParagraphBlock("No run is finished.")
        return
    number = " and ".join(dict.fromkeys(str(len(printed_orders(paper, setting))) for setting in paper.judged))
    yield ParagraphBlock(
        f"{paper.leading} of the most popular items and of {paper.reference} (printed {_prints(paper)}), and what "
        f"became of the {number} printed orders ([findings](findings.md)): held / not held / undecided. "
        "One seed decides nothing."
    )
    looks = [
        look
        for look in paper.looks
        if any(look in measured_reporting_points(paper, runs, setting) for setting in found)
    ]
    looks = looks or [LAST]
    rows = [[GridCell(setting), *_state(paper, runs, setting, looks)] for setting in found]
    titles = ("popularity", f"{paper.reference}, last epoch", f"{paper.reference} passes its print")
    columns = [
        GridColumn("setting"),
        *(GridColumn(title) for title in titles),
        GridColumn("printed orders", tuple(looks)),
    ]
    yield Grid("In short", columns, rows)


def _prints(paper: Comparison) -> str:
    """Return the printed value of the reference, by setting if it differs between settings."""
    found = {setting: f"{paper.reference_print(setting):.5f}" for setting in paper.judged}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{value} in {setting}" for setting, value in found.items())


def _state(paper: Comparison, runs: Runs, setting: str, looks: Sequence[str]) -> list[GridCell]:
    reference = experiment_name(setting, paper.rows[paper.main_in(setting)][paper.reference])
    passed = list(reported_epochs(paper, runs, reference, paper.at_print).values())
    is_told = reference in runs and setting in paper.judged
    said = format_epochs(passed, paper.unit) if passed else "never" if is_told else "–"
    counts = [count_order_verdicts(paper, runs, setting, look) for look in looks]
    return [
        format_mean(baseline_score(paper, runs, setting, paper.leading, "popularity")),
        format_mean(reported_score(paper, runs, reference, paper.leading, LAST)),
        GridCell(said),
        *(
            GridCell(" / ".join(str(own[verdict]) for verdict in (HELD, NOT_HELD, UNDECIDED)))
            if own[NOT_MEASURED] < sum(own.values()) and setting in paper.judged
            else GridCell("–", kind=Verdict.NOT_RUN.word)
            for own in counts
        ),
    ]


def run_time_blocks(
    runs: Runs, planned: int, experiments: Collection[str], kind: str, kind_of: Callable[[str], str]
) -> Iterator[DocumentBlock]:
    """Yield the duration of runs of each kind, and an estimate for the missing ones.

    Parameters
    ----------
    runs : mapping
    planned : int
        Number of runs of the whole study.
    experiments : collection of str
        All experiments of the study.
    kind : str
        Name of the groups of runs.
    kind_of : callable
        Maps an experiment to its group.
    """
    taken: dict[str, list[float]] = {}
    for name, seeds in runs.items():
        for run in seeds.values():
            taken.setdefault(kind_of(name), []).append(float((run.summary or {})["wall_seconds"]))
    yield Heading(2, "Times", "times")
    yield ParagraphBlock(
        f"All finished runs together took {format_clock(sum(sum(own) for own in taken.values()))}."
    )
    if not taken:
        return
    n_seeds = planned // len(experiments)
    rows = []
    for one, own in taken.items():
        due = n_seeds * sum(kind_of(name) == one for name in experiments)
        each, left = sum(own) / len(own), max(due - len(own), 0)
        said = (
            one,
            f"{len(own)} of {due}",
            format_clock(each),
            format_clock(max(own)),
            format_clock(left * each),
        )
        rows.append([GridCell(text) for text in said])
    titles = (kind, "finished", "time of a run", "longest", "estimated time of the rest, sequentially")
    yield Grid("Times", [GridColumn(title) for title in titles], rows)
