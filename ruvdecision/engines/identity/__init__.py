"""Which row of a release is whose."""
