"""What decides for an agent: the port, and the deciders that need no model."""
