"""Judge the result of an attempt, out of the agent's reach."""
