"""Studies: a base scenario, what varies, seeds, and one tidy table of what came out."""
