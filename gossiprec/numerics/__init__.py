"""Arithmetic that models share: keyed draws, rounding, noise; compiled, optimizers and merges too."""
