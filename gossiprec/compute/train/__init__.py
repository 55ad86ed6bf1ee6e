"""Training of nodes' models: local updates, merges by performance, and settings of single nodes."""
