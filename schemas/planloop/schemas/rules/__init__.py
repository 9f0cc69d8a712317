"""Rules of hooks: conditions, comparison and patterns."""
