"""Overlays: the peers of nodes. Random views, neighbourhoods in graphs, and views that nodes exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.base.registry import Registry

if TYPE_CHECKING:
    from gossiprec.network.overlay.view_exchange import ExchangedViews

SAMPLINGS: Registry[type[ExchangedViews]] = Registry("sampling", __name__, group="samplings")
"""Ways in which nodes maintain a view by exchanging entries."""
