"""Studies of papers: one folder each, run from a clone; they import gossiprec as any other package would."""
