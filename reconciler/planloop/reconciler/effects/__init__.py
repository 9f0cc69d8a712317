"""Effects on the world: processes that outlive a crash, and the journal that makes them safe to retry."""
