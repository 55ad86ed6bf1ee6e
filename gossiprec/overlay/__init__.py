"""Overlays: whom a node may send to. Random views, neighbourhoods in graphs, and views that nodes exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.registry import Registry

if TYPE_CHECKING:
    from gossiprec.overlay.view_exchange import ExchangedViews

SAMPLINGS: Registry[type[ExchangedViews]] = Registry("sampling", __name__, group="samplings")
"""Ways in which nodes keep a view by talking to one another."""
