"""How a model or program is asked for a turn: prompts, requests, what they cost, and transcripts made shorter."""
