"""Categorical files as tables."""
