"""Empirical utility of numeric and mixed files."""
