"""Public sets of cases, as they lie in a folder, become suites. What is fetched stays with whoever fetched it."""
