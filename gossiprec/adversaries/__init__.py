"""Adversaries: attacks on privacy and poisoners of models."""
