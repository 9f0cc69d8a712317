"""Export to Compose."""
