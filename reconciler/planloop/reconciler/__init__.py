"""The reconciler: store, work queue, effects, admission and diff.

The queue and the engine are independent of the kinds of objects; admission, diff and the journal of calls are not.
"""
