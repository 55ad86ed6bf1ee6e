"""Figures of a study: a table in, csv, png and svg out."""
