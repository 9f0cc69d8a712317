"""The reconciler: store, work queue, effects, admission and diff. The queue and the engine know no kind of object;
admission, diff and the journal of calls do.
"""
