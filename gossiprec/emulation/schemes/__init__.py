"""Schemes of messages: sums in place of models, and models in parts; one file each."""
