"""What a report says of a study: one module a section, found by itself, with ``ORDER`` and ``section(study)``."""
