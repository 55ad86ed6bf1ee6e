"""The section ``checkpoint``: how often a run notes its state, so that nothing is lost if it ends early."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gossiprec.options import Options


class Checkpoint(Options):
    """When a run notes its state; none of it changes a result. Checkpoints are taken at reports (``evaluate``)."""

    every: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Rounds between two checkpoints; null: only by the clock."
    )
    minutes: Annotated[float, Field(gt=0)] | None = Field(
        default=5.0, description="Minutes between two checkpoints; null, and every null: none are taken."
    )
    keep: int = Field(default=2, ge=1, description="How many are kept, the last ones.")
