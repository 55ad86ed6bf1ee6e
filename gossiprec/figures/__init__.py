"""Figures of runs and studies, one module each: they read folders, write csv, png and svg, and run nothing."""
