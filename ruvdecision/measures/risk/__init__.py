"""Empirical disclosure risk."""
