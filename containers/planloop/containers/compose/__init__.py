"""Export of containers to a Compose file."""
