"""Edit the live plan as text in the page: check, preview, apply, merge, write the file."""
