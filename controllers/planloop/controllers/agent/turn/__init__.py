"""One turn of an agent: its prompt, its request to a model, its calls and its end."""
