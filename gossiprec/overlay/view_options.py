"""The views that nodes exchange, as a scenario names them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from gossiprec.member_options import OneOf
from gossiprec.overlay import SAMPLINGS
from gossiprec.overlay.exchange import ExchangeOptions

ExchangeView: TypeAlias = Annotated[ExchangeOptions, OneOf(SAMPLINGS, "sampling")]
