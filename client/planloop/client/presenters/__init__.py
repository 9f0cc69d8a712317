"""Parts of a plan as JSON with words, for the API and for `-o json`."""
