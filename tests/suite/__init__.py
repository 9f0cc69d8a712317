"""Plugins of pytest that select the tests of a run, bound their cost, judge failures and rewrite golden files."""
