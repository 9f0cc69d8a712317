"""The log and its fold: the store's port, SQLite behind it, blobs, the mirror, and who owns the plan."""
