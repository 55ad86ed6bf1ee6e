"""Figures of a study: they read its table and write csv, png and svg."""
