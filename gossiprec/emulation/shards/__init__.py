"""A run divided among shards: one leads and the others follow, on Ray or as threads of one process."""
