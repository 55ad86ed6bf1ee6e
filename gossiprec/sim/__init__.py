"""When and who: the SimPy layer. Knows node ids, times and message ids; no models, no recommenders."""
