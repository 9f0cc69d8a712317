"""Resolve names and references in a plan."""
