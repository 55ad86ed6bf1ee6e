"""One simulation in several processes: the owner of each node, and the rows that shards exchange."""
