"""A suite's text becomes a suite that is known to be sound, or faults with their places and cures."""
