"""Serve a plan over TCP: the API, websockets and the web page, in a process separate from the owner."""
