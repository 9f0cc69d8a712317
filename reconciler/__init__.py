"""The engine: log, view, gate, queue, workers, processes.

What stores and drives objects knows no kind by name; the gate, which judges edits of plans, knows tasks and agents.

Start with `contract.py` (what a controller is), `store.py` (what is stored) and `engine.py` (what drives it).
"""
