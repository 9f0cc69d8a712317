"""Effects on the world: processes that outlive a crash of their owner, and the journal that makes them safe."""
