"""Families of graphs, registered by name; a file that is added here adds families."""
