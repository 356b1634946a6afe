"""A belief about a table of counts of which some cells were suppressed."""
