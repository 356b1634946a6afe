"""How work is run: executors, checkpoints, seeds, progress."""
