"""Reports: one HTML page of runs and studies, read from their folders, that needs no network."""
