"""The `ws` check: holds when clients of a websocket hear of each other what its steps say, in some usual way."""

from controllers.task.checking.ws.trying import check

__all__ = ["check"]
