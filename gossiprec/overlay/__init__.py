"""Overlays: whom a node may send to. Random views, and neighbourhoods in static graphs."""
