"""Edit the live plan as text in the web page: check, preview, apply, merge, write the file."""
