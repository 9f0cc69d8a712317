"""Convert public benchmark data in a folder to suites. planloop ships none of the data."""
