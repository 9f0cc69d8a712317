"""The command, the API and what they print."""
