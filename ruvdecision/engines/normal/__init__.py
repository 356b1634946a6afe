"""Closed forms for normal beliefs."""
