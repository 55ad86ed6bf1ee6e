"""The check of claims, which reports every claim that does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def check_claims(about: str, subject: T, claims: Iterable[Callable[[T], None]]) -> None:
    """Check claims: functions that raise if their claim does not hold; its text is their docstring's first line.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    broken: list[str] = []
    first: Exception | None = None
    for claim in claims:
        try:
            claim(subject)
        except Exception as error:  # any error of a plug-in means that the claim does not hold
            first = first or error
            found = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            broken.append(f"- {(claim.__doc__ or claim.__name__).splitlines()[0]} {found}".rstrip())
    if broken:
        raise AssertionError("\n".join([f"{about} breaks its contract:", *broken])) from first
