"""The parts of a run, built from a scenario."""
