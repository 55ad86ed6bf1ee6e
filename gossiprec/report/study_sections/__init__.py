"""Sections of a report on a study: one module each, found automatically, with ``ORDER`` and ``section(study)``."""
