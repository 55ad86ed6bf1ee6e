"""A run divided among shards: one leads, the others follow; on Ray, or as threads of one process."""
