"""Agents as copies of others, and in files."""
