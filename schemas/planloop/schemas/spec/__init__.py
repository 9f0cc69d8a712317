"""What a plan may say: one table of fields for each kind."""
