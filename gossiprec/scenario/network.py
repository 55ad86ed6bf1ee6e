"""The section ``network``: what happens to a message between its sender and its receiver."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from gossiprec.options import Options


class ConstantLatency(Options):
    """Every message takes the same time."""

    law: Literal["constant"] = "constant"
    value: float = Field(default=0.0, ge=0, description="Time on the way, in mean wake periods.")


class ExponentialLatency(Options):
    """Times on the way are independent and exponentially distributed."""

    law: Literal["exponential"]
    mean: float = Field(gt=0, description="Mean time on the way, in mean wake periods.")


Latency: TypeAlias = Annotated[ConstantLatency | ExponentialLatency, Field(discriminator="law")]


class Network(Options):
    """What happens to a message between its sender and its receiver."""

    latency: Latency = Field(default=ConstantLatency(), description="Time on the way, in mean wake periods.")
    loss: float = Field(default=0.0, ge=0, lt=1, description="Probability that a message never arrives.")
