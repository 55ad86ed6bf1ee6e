"""A run in progress: its schedule, its tape runner, reports, checkpoints, and its end."""
