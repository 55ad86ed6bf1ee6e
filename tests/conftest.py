"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is; timings belong to benchmarks.
settings.register_profile("gossiprec", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gossiprec")
