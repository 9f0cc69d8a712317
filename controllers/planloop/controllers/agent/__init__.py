"""The agent controller: turns, calls, tools and messages, for every kind of decider."""
