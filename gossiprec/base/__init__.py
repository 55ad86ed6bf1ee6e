"""What every room uses and what knows nothing of recommenders: errors, registries, options, random streams, files."""
