"""Estimates of a run before it starts: sizes, events, memory and time."""
