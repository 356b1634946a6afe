"""Snoopers who use a fixed rule instead of Bayes' theorem."""
