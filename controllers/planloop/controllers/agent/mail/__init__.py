"""What an agent is told, what it owes, and whom it may write to."""
