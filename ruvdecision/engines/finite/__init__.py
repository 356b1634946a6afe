"""Beliefs with finitely many states: sums over states and releases."""
