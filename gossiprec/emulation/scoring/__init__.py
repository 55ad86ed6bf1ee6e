"""Scoring of a run: utility, accuracy of attacks, privacy, and positions."""
