"""Studies of papers: a module and a folder of data each, run from a clone; they use gossiprec as any package would."""
