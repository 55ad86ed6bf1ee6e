"""Parts of a report that every study has: claims, versions, durations, and missing runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.verdict import MARKS, ClaimVerdict, Verdict
from gossiprec.runs import Run

INTERVALS = "± is half of the 95 % interval over seeds (Student's t); a number without it is of one seed."


def claim_blocks(
    claims: Sequence[ClaimVerdict], title: str = "What the paper claims"
) -> Iterator[DocumentBlock]:
    """Yield each claim with its verdict and evidence."""
    yield Heading(2, title)
    for claim in claims:
        look = MARKS.get(claim.verdict, Verdict.NOT_RUN)
        evidence = "\n".join(f"- {line}" for line in claim.evidence)
        yield ParagraphBlock(f"{look.mark} **{claim.claim}: {claim.verdict}.**\n\n{evidence}")


def versions_used(runs: Iterable[Run]) -> list[str]:
    """Return the versions of gossiprec, with commits, that made these runs."""
    return sorted({f"{run.manifest.get('gossiprec')} ({_commit(run)})" for run in runs})


def _commit(run: Run) -> str:
    commit = str(run.manifest.get("git_commit") or "no commit")
    return f"{commit[:10]}-dirty" if commit.endswith("-dirty") else commit[:10]


def format_clock(seconds: float) -> str:
    """Return a duration as ``h:mm:ss`` or ``m:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def missing_blocks(reasons: Mapping[str, str]) -> Iterator[DocumentBlock]:
    """Yield each reason with the experiments that have no finished run because of it."""
    yield Heading(2, "Missing", "missing")
    if not reasons:
        yield ParagraphBlock("Nothing: every experiment has a finished run.")
        return
    found: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        found.setdefault(" ".join(reason.split())[:400], []).append(name)
    rows = [[GridCell(reason), GridCell(", ".join(names))] for reason, names in found.items()]
    yield Grid("Missing", [GridColumn("why"), GridColumn("experiments without a finished run")], rows)
