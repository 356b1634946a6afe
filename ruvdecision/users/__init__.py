"""Who waits for the release: users, snoopers, panels, and what they know of the mask."""
