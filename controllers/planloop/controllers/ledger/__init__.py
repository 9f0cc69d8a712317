"""Entries in the ledgers of tasks: what a budget is granted, reserved, spent and given back. Used by all controllers.

Pure: an entry is computed from the tasks as they stand and comes out as changes for the record that makes it true.
"""

from planloop.controllers.ledger.books import Books, Spent, added_up, chain_of

__all__ = ["Books", "Spent", "added_up", "chain_of"]
