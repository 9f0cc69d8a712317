"""What an attempt made, taken out of its reach and judged."""
