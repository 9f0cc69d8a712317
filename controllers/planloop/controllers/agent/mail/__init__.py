"""Mail of agents: their news, messages between them, and the answers they owe."""
