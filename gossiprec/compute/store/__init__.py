"""Stores of model versions and updates."""
