"""Formats of numbers: printed ones with their band, measured ones with interval and mark."""

from __future__ import annotations

from analysis.cda_paper.experiments import PROTOCOLS
from analysis.cda_paper.published import PrintedCell
from analysis.cda_paper.verdicts import CellResult
from analysis.papers.document import GridCell
from analysis.papers.seed_statistics import PerSeed, confidence_half_width, mean
from analysis.papers.verdict import Verdict

NAMES = {"movielens-100k": "MovieLens-100k", "foursquare-nyc": "Foursquare-NYC", "gowalla": "Gowalla"}
DASH = "–"
_WORDS = {**PROTOCOLS, "gmf": "GMF", "prme-g": "PRME-G", "mia": "MIA", "cda": "CDA", "aia": "AIA"}


def table_title(table: str) -> str:
    """Return the label of a table."""
    return "Text" if table == "text" else table.replace("table", "Table ").replace("-bounds", ", bounds")


def dataset_title(dataset: str) -> str:
    """Return the label of a data set."""
    return NAMES.get(dataset, dataset)


def row_title(row: str) -> str:
    """Return the label of a row; empty if the data set identifies it."""
    if row == "statistics":
        return ""
    named = " ".join(_WORDS.get(word, word) for word in row.split())
    return named.replace("%", " %").replace("K=", "K = ")


def printed_field(number: PrintedCell) -> GridCell:
    """Return the field of a printed number, with its band below."""
    if number.value == "":
        return GridCell(DASH)
    band = format_band(number)
    return GridCell(format_printed(number), (band,) if band else (), kind="printed")


def format_printed(number: PrintedCell) -> str:
    """Return a printed number as text."""
    return number.value if isinstance(number.value, str) else f"{number.value:,}"


def format_band(number: PrintedCell) -> str:
    """Return the band of a printed number; empty if there is none, or it must be met exactly."""
    if number.band is None or number.band[0] == number.band[1]:
        return ""
    return "–".join(f"{end:.4g}" for end in number.band)


def measured_field(result: CellResult, *small: str, has_verdict: bool = True) -> GridCell:
    """Return the field of a measured number: mark, mean, half of the 95 % interval; below it the seeds and remarks."""
    if not result.values:
        return GridCell(DASH, small, kind=Verdict.NOT_RUN.word)
    is_judged = has_verdict and result.cell.printed.value != ""
    verdict = result.verdict
    return GridCell(
        format_measured(result.values, result.cell.printed),
        (f"n = {len(result.values)}", *small),
        mark=verdict.mark if is_judged else "",
        kind=verdict.word if is_judged else "",
    )


def format_measured(values: PerSeed, number: PrintedCell) -> str:
    """Return the mean over seeds, with ± half of its 95 % interval if the seeds differ."""
    digits = _digits(mean(values), number)
    text = f"{mean(values):,.{digits}f}"
    half = confidence_half_width(values)[1] - mean(values)
    return f"{text} ± {half:,.{digits}f}" if half > 0 else text  # NaN with one seed


def _digits(value: float, number: PrintedCell) -> int:
    is_count = number.band is not None and number.band[0] == number.band[1]
    return 0 if is_count or abs(value) >= 1000 else 2 if _is_fraction(number) or abs(value) < 1 else 1


def _is_fraction(number: PrintedCell) -> bool:
    return number.column in ("accuracy", "precision", "recall")
