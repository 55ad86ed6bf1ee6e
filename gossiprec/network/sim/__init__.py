"""The SimPy layer: event times and participants. It knows node ids, times and message ids, but no models."""
