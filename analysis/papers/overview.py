"""What a report says before and behind tables and figures: how a study stands in short, and times."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from analysis.papers.claims import HELD, NOT_HELD, NOT_MEASURED, UNDECIDED
from analysis.papers.comparison import LAST, Comparison, is_of, name_of
from analysis.papers.curves import chosen_epochs, level, score
from analysis.papers.document import Block, Column, Entry, Grid, Heading, Text
from analysis.papers.orders import looks_of, orders, tally
from analysis.papers.report_parts import duration
from analysis.papers.seeds import Runs
from analysis.papers.tables import epochs_in_words, measured
from analysis.papers.verdict import Verdict


def overview(paper: Comparison, runs: Runs) -> Iterator[Block]:
    """Yield, for each setting, the reference beside popularity and the print, and how many printed orders hold."""
    yield Heading(2, "In short", "short")
    found = [setting for setting in paper.settings if any(is_of(name, setting) for name in runs)]
    if not found:
        yield Text("No run is finished.")
        return
    number = " and ".join(dict.fromkeys(str(len(orders(paper, setting))) for setting in paper.judged))
    yield Text(
        f"{paper.leading} of the most popular items and of {paper.reference} (printed {_prints(paper)}), and what "
        f"became of the {number} printed orders ([findings](findings.md)): held / not held / undecided. "
        "One seed decides nothing."
    )
    looks = [look for look in paper.looks if any(look in looks_of(paper, runs, setting) for setting in found)]
    looks = looks or [LAST]
    rows = [[Entry(setting), *_state(paper, runs, setting, looks)] for setting in found]
    titles = ("popularity", f"{paper.reference}, last epoch", f"{paper.reference} passes its print")
    columns = [
        Column("setting"),
        *(Column(title) for title in titles),
        Column("printed orders", tuple(looks)),
    ]
    yield Grid("In short", columns, rows)


def _prints(paper: Comparison) -> str:
    """Return the printed value of the reference, of each setting where it is not the same in all."""
    found = {setting: f"{paper.reference_print(setting):.5f}" for setting in paper.judged}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{value} in {setting}" for setting, value in found.items())


def _state(paper: Comparison, runs: Runs, setting: str, looks: Sequence[str]) -> list[Entry]:
    reference = name_of(setting, paper.rows[paper.main_in(setting)][paper.reference])
    passed = list(chosen_epochs(paper, runs, reference, paper.at_print).values())
    is_told = reference in runs and setting in paper.judged
    said = epochs_in_words(passed, paper.unit) if passed else "never" if is_told else "–"
    counts = [tally(paper, runs, setting, look) for look in looks]
    return [
        measured(level(paper, runs, setting, paper.leading, "popularity")),
        measured(score(paper, runs, reference, paper.leading, LAST)),
        Entry(said),
        *(
            Entry(" / ".join(str(own[verdict]) for verdict in (HELD, NOT_HELD, UNDECIDED)))
            if own[NOT_MEASURED] < sum(own.values()) and setting in paper.judged
            else Entry("–", kind=Verdict.NOT_RUN.word)
            for own in counts
        ),
    ]


def times(
    runs: Runs, planned: int, experiments: Collection[str], kind: str, kind_of: Callable[[str], str]
) -> Iterator[Block]:
    """Yield what runs of each kind took, and about how long those that are missing would take.

    Parameters
    ----------
    runs : mapping
    planned : int
        How many runs the whole study has.
    experiments : collection of str
        All of the study.
    kind : str
        What runs are told apart by.
    kind_of : callable
        Experiment -> its kind.
    """
    taken: dict[str, list[float]] = {}
    for name, seeds in runs.items():
        for run in seeds.values():
            taken.setdefault(kind_of(name), []).append(float((run.summary or {})["wall_seconds"]))
    yield Heading(2, "Times", "times")
    yield Text(f"All finished runs together took {duration(sum(sum(own) for own in taken.values()))}.")
    if not taken:
        return
    n_seeds = planned // len(experiments)
    rows = []
    for one, own in taken.items():
        due = n_seeds * sum(kind_of(name) == one for name in experiments)
        each, left = sum(own) / len(own), max(due - len(own), 0)
        said = (one, f"{len(own)} of {due}", duration(each), duration(max(own)), duration(left * each))
        rows.append([Entry(text) for text in said])
    titles = (kind, "finished", "time of a run", "longest", "estimated time of the rest, sequentially")
    yield Grid("Times", [Column(title) for title in titles], rows)
