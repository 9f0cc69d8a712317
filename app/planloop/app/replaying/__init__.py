"""A plan run again from its log: everything that decides really runs, and all that came from outside is played back.

`planloop.reconciler.storing.replaying` only folds; this proves that the same would be decided again.
"""
