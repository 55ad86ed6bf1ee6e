"""The views that nodes exchange, as a scenario names them: one alternative for each registered way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias, Union

from pydantic import Field

from gossiprec.overlay import SAMPLINGS
from gossiprec.overlay.exchange import ExchangeOptions

if TYPE_CHECKING:
    ExchangeView: TypeAlias = ExchangeOptions
else:
    ExchangeView = Annotated[
        Union[tuple(SAMPLINGS[name].Options for name in SAMPLINGS)],  # noqa: UP007 - made of a tuple
        Field(discriminator="sampling"),
    ]
