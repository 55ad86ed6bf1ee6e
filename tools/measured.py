"""Values of a study in the form of the files behind quoted numbers (`docs/record/quoted_numbers.md`).

    python -m tools.measured STUDY --measure recall@20=Recall@20 --at 4 --at end --at best:val_recall@20 \
        [--setting file-sum1] [--row SHOWN=EXPERIMENT] [--into FILE]

prints a line for each row, column, look and seed: ``setting,row,column,look,seed,measured``. A measure is one of
``metrics.csv``, or a path in ``summary.json`` such as ``contribution.leaks.mia_auc``, which has only the end. A look
is an epoch (a report's round), ``end``, or ``best:METRIC``, the report with the largest METRIC. A setting chooses the
experiments whose names begin with it, and is left out of the names of rows; with ``--row`` only the named ones have
rows. ``--into`` writes the lines into a file: those with the same names are replaced, all others stay.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analysis.papers.comparison import BEST, LAST, metric_by_epoch, summary_value
from gossiprec.base.errors import GossipRecError
from gossiprec.measures.direction import best_place
from gossiprec.runs import Run, open_run
from gossiprec.runs.run_files import replace_file

HEADER = ("setting", "row", "column", "look", "seed", "measured")
Line = tuple[str, ...]


def finished_runs(study: Path, setting: str) -> Iterator[tuple[str, str, Run]]:
    """Yield name, seed and run of each finished run of a study.

    Raises
    ------
    GossipRecError
        If the folder has no readable ``table.csv``, or its table has no finished run of the setting.
    """
    table = study / "table.csv"
    if not table.is_file():
        raise GossipRecError(
            f"{table}: found no file, expected the table of a study; run `gossiprec study` first"
        )
    with table.open(newline="") as file:
        lines = csv.DictReader(file)
        if not {"seed", "run", "status"} <= set(lines.fieldnames or ()):
            raise GossipRecError(
                f"{table}: found no columns seed, run and status, expected the table of a study"
            )
        rows = [row for row in lines if row["status"] == "complete"]
    axes = list(rows[0])[: list(rows[0]).index("seed")] if rows else []
    named = {(", ".join(row[axis] for axis in axes), row["seed"]): row["run"] for row in rows}
    wanted = {key: run for key, run in named.items() if key[0].startswith(f"{setting}-" if setting else "")}
    if not wanted:
        names = ", ".join(sorted({name for name, _ in named})) or "none"
        raise GossipRecError(
            f"{table}: found no finished run of {setting or 'any setting'}; finished are {names}"
        )
    for (name, seed), run in sorted(wanted.items(), key=lambda item: (item[0][0], int(item[0][1]))):
        yield name[len(setting) + 1 if setting else 0 :], seed, open_run(study / "runs" / run)


def look_values(run: Run, measure: str, looks: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield the looks of a measure that a run has, with their values."""
    curve = metric_by_epoch(run, measure)
    if not curve:
        value = summary_value(run, *measure.split("."))
        if isinstance(value, (int, float)):
            yield LAST, value
        return
    for look in looks:
        kind, _, leading = look.partition(":")
        if kind == "end":
            yield LAST, curve[max(curve)]
        elif kind == "best":
            scores = {e: v for e, v in sorted(metric_by_epoch(run, leading).items()) if e in curve}
            if (place := best_place(leading, [*scores.values()])) is not None:
                yield BEST, curve[[*scores][place]]
        elif int(look) in curve:
            yield label_of(look), curve[int(look)]


def label_of(look: str) -> str:
    """Return the name of a look in the files, as `analysis.papers.comparison` has it."""
    return {"end": LAST, "best": BEST}.get(look.partition(":")[0]) or str(int(look))


def study_lines(
    study: Path, setting: str, measures: Mapping[str, str], looks: Sequence[str], shown: Mapping[str, str]
) -> Iterator[Line]:
    """Yield the lines of a study; `measures` and `shown` have the page's names; an empty `shown` means all rows.

    Raises
    ------
    GossipRecError
        If a named experiment, a measure or a look has no value.
    """
    runs, found = list(finished_runs(study, setting)), set()
    missing = sorted(set(shown) - {name for name, _, _ in runs})
    if missing:
        names = ", ".join(sorted({name for name, _, _ in runs}))
        raise GossipRecError(f"--row: found {', '.join(missing)}, expected some of {names}")
    for name, seed, run in runs:
        if shown and name not in shown:
            continue
        for measure, column in measures.items():
            for look, value in look_values(run, measure, looks):
                found |= {measure, look}
                yield setting, shown.get(name, name), column, look, seed, f"{value:.6f}"
    missing = [name for name in (*measures, *map(label_of, looks)) if name not in found]
    if missing:
        raise GossipRecError(
            f"no run has a value of {', '.join(missing)}; expected measures and looks of the study"
        )


def merge_lines(old: Sequence[Line], new: Sequence[Line]) -> list[Line]:
    """Return the lines of a file, those with the names of new ones replaced, and the other new ones at the end."""
    fresh = {line[:-1]: line for line in new}
    kept = [fresh.pop(line[:-1], line) for line in old]
    return kept + list(fresh.values())


def pair(text: str, default: str) -> tuple[str, str]:
    """Return both sides of ``first=second``; a missing second is `default` or the first."""
    first, _, second = text.partition("=")
    return first, second or default or first


def look_name(text: str) -> str:
    """Return a look.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none of an epoch, ``end`` and ``best:METRIC``.
    """
    if not re.fullmatch(r"\d+|end|best:.+", text):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected an epoch, end or best:METRIC")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Print or merge the lines, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.measured", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("study", type=Path)
    parser.add_argument("--measure", action="append", required=True, metavar="METRIC[=COLUMN]")
    parser.add_argument("--at", action="append", default=[], type=look_name, metavar="LOOK")
    parser.add_argument("--setting", default="")
    parser.add_argument("--row", action="append", default=[], metavar="SHOWN=EXPERIMENT")
    parser.add_argument("--into", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    measures = dict(pair(text, "") for text in chosen.measure)
    shown = {name: row for row, name in (pair(text, "") for text in chosen.row)}
    try:
        lines = list(study_lines(chosen.study, chosen.setting, measures, chosen.at or ["end"], shown))
        if chosen.into and chosen.into.exists():
            with chosen.into.open(newline="") as file:
                first, *old = [tuple(row) for row in csv.reader(file)] or [()]
            if first != HEADER:
                raise GossipRecError(
                    f"{chosen.into}: found columns {', '.join(first)}, expected {', '.join(HEADER)}"
                )
            lines = merge_lines(old, lines)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([HEADER, *lines])
        if chosen.into:
            replace_file(chosen.into, text.getvalue().encode())
        else:
            print(text.getvalue(), end="")
    except (GossipRecError, OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
