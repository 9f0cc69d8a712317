"""Spans and metrics of a plan, read from its log."""
