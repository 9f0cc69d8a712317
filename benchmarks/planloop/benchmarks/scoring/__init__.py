"""Compute figures from events: fold a run, summarise models, compare them. Pure."""
