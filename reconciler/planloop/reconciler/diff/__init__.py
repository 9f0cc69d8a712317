"""What an edit changes: differences of objects, their description, and a saved file as a patch."""
