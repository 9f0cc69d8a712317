"""Check a document: types, references, limits and rules between fields."""
