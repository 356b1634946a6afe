"""Questions asked of maps, users and masks: what is best, what is possible, how sure, what it is worth."""
