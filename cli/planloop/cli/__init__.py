"""One file a verb. `main.py` finds them without importing them; `../exits.py` says how a command ends."""
