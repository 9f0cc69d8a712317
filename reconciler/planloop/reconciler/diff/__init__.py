"""The effects of an edit: differences of objects, their descriptions, and a saved file as a patch."""
