"""One file for each family of graphs."""
