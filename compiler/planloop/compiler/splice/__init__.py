"""Write changes of a document back into its source text."""
