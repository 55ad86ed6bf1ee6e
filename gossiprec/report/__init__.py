"""Reports: one HTML page about runs and studies, read from their folders, that needs no network."""
