"""What is fitted to two files that are compared."""
