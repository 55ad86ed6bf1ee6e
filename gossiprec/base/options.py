"""The base of every typed option set: frozen, and closed to unknown keys."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

LARGEST = 2**31 - 1
"""Largest value of any count; sums and products of such counts stay exact."""
MOST, LEAST = 1e30, 1e-100
"""Magnitudes of the largest and the smallest number but 0: single precision holds them, and squares stay above 0."""


class Options(BaseModel):
    """Options of one registered thing, or one section of a scenario.

    Unknown keys are errors; the scenario layer turns them into messages with line, key path and a suggestion.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def remarks(self) -> dict[str, str]:
        """Return comments that ``gossiprec scenario show`` prints after some keys, by key."""
        return {}

    @field_validator("*")
    @classmethod
    def _computable(cls, value: Any) -> Any:
        """Refuse numbers that arithmetic would turn into infinity or into 0."""
        for number in value if isinstance(value, tuple | list) else (value,):
            if isinstance(number, float) and number and not LEAST <= abs(number) <= MOST:
                raise ValueError(f"found {number:g}; expected 0, or a magnitude from {LEAST:g} to {MOST:g}")
        return value


class NoOptions(Options):
    """The option set of a thing that has none."""
