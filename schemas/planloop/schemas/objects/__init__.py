"""The kinds of object: what their specs and statuses hold."""
