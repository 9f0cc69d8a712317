"""Serve a plan over TCP: API, websockets and page, beside the owner."""
