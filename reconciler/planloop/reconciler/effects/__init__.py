"""Effects outside of the log: processes that survive a crash, and the journal that makes calls safe to retry."""
