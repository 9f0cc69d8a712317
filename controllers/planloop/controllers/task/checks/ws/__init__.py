"""The `ws` check: passes when websocket clients receive what its steps state."""
