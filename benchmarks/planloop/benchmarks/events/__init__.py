"""What happens in a run, as lines that are only ever appended: a projection of the log of its plan."""
