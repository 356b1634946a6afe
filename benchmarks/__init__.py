"""Our times as ratios against the alternatives; see README.md here."""
