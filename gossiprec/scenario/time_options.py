"""Distributions of random times, as options of a scenario."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from gossiprec.base.options import Options

LONGEST = 1e6
"""Longest time that a scenario may have, in mean wake periods."""
Time: TypeAlias = Annotated[float, Field(ge=0, le=LONGEST)]
PositiveTime: TypeAlias = Annotated[float, Field(gt=0, le=LONGEST)]


class ConstantTime(Options):
    """Always the same."""

    law: Literal["constant"]
    value: Time = Field(description="The time, in mean wake periods.")


class UniformTime(Options):
    """Uniformly distributed between two bounds."""

    law: Literal["uniform"]
    low: Time = Field(default=0.0, description="Shortest time.")
    high: PositiveTime = Field(description="Longest time.")

    @model_validator(mode="after")
    def _ordered(self) -> UniformTime:
        if self.low > self.high:
            raise ValueError(f"found low {self.low:g} above high {self.high:g}; swap them")
        return self


class ExponentialTime(Options):
    """Exponentially distributed: memoryless."""

    law: Literal["exponential"]
    mean: PositiveTime = Field(description="Mean time.")


class LognormalTime(Options):
    """A normally distributed logarithm: most times near the median, a few much longer."""

    law: Literal["lognormal"]
    median: PositiveTime = Field(description="Median: half of the times are shorter.")
    sigma: Annotated[float, Field(gt=0, le=10)] = Field(
        description="Standard deviation of the natural logarithm."
    )


class WeibullTime(Options):
    """``P(T > t) = exp(-(t / scale)^shape)``; a shape below 1 gives many short times and a few very long ones."""

    law: Literal["weibull"]
    scale: PositiveTime = Field(description="Scale: 63 % of the times are shorter.")
    shape: Annotated[float, Field(ge=0.1, le=20)] = Field(
        description="Shape; 1 is the exponential distribution."
    )


class TraceTime(Options):
    """Measured times from a file."""

    law: Literal["trace"]
    path: str = Field(
        min_length=1, description="Text file with one time per line, or a CSV file with a header."
    )
    column: str | None = Field(default=None, description="Column of the CSV file, named as in the header.")
    order: Literal["random", "sequence"] = Field(
        default="random",
        description="random: drawn with replacement; sequence: each node takes the times one after the other.",
    )
    end: Literal["repeat", "hold", "refuse"] = Field(
        default="repeat",
        description="for sequence, after the last time: start over, keep the last time, or refuse the run.",
    )


RandomTime: TypeAlias = Annotated[
    ConstantTime | UniformTime | ExponentialTime | LognormalTime | WeibullTime | TraceTime,
    Field(discriminator="law"),
]
