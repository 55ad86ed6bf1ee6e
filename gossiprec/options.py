"""The base of every typed option set: frozen, and closed to unknown keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

LARGEST = 2**31 - 1
"""Most that anything is counted to; sums and products of such counts stay exact."""


class Options(BaseModel):
    """Options of one registered thing, or one section of a scenario.

    Unknown keys are errors; the scenario layer turns them into messages with line, key path and a suggestion.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def remarks(self) -> dict[str, str]:
        """Return comments that ``gossiprec scenario show`` prints behind some keys, by key."""
        return {}


class NoOptions(Options):
    """The option set of a thing that has none."""
