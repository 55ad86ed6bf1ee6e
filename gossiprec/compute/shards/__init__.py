"""One simulation in several processes: who owns which node, which rows travel, and how."""
