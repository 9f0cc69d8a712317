"""The gateway: the plan over TCP for people and programs, beside the owner and without hurting it.

It reads the log itself (`replica.py`), so that reads and watchers cost the owner nothing, and hands changes to the
owner over its socket (`forwarding.py`). Who may ask for what is `guarding.py`, and nothing passes it by.
"""
