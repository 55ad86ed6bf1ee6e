"""Studies of papers: one folder each, run from a clone; they import gossiprec like anybody."""
