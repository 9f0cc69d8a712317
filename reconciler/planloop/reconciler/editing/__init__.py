"""What an edit comes to: a saved file as a patch, the differences it makes, previews, and history."""
