"""Language models behind one port: OpenAI-compatible HTTP, litellm for the rest, recording and replaying."""
