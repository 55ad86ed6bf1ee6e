"""Arithmetic that models share: keyed draws, rounding, noise, optimizers and compiled merges."""
