"""From a scenario to the parts of a run."""
