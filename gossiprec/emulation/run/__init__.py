"""A run: the schedule of its events, what carries them out, reports, checkpoints, and its end."""
