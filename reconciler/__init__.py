"""The engine: log, view, gate, queue, workers, processes. It knows no kind of object by name.

Start with `contract.py` (what a controller is), `store.py` (what is stored) and `engine.py` (what drives it).
"""
