"""Checking claims: every one that does not hold is told, not the first alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def check_claims(about: str, subject: T, claims: Iterable[Callable[[T], None]]) -> None:
    """Check claims: functions that raise if theirs does not hold, with the claim as first line of the docstring.

    Raises
    ------
    AssertionError
        If any does not; the message lists all of these.
    """
    broken: list[str] = []
    first: Exception | None = None
    for claim in claims:
        try:
            claim(subject)
        except Exception as error:  # whatever a plug-in raises is a claim that does not hold
            first = first or error
            found = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            broken.append(f"- {(claim.__doc__ or claim.__name__).splitlines()[0]} {found}".rstrip())
    if broken:
        raise AssertionError("\n".join([f"{about} breaks its contract:", *broken])) from first
