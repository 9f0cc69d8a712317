"""The API: its table, its description, its doors."""
