"""A format of session traces: logs of heartbeats."""
