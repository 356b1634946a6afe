"""The law of a release given the records."""
