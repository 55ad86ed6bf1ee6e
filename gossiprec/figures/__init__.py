"""Figures: one module each, run directories in, csv, png and svg out; nothing here runs a simulation."""
