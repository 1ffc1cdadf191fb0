"""Conformance suites for what people bring: attention heads and Langevin update rules."""
