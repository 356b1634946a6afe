"""Pictures of maps, posteriors and decisions."""
