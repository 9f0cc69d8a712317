"""The engine loop: the queue, the outcomes of a reconcile, and the pools that jobs run in."""
