"""The `web` check: a person in a real browser."""
