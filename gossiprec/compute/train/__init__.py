"""What nodes do to models: local updates, merges by performance, and settings of single nodes."""
