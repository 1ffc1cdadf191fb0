"""Estimates with intervals, verdicts, and randomness derived from names."""
