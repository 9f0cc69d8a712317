"""Convert public sets of cases in a folder to suites. None of the data ships with planloop."""
