"""A suite and who is measured become a run: choices drawn, blanks filled, keys taken. Pure."""
