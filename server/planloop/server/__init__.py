"""The owner's HTTP API on a unix socket, and `OwnerService` behind it, which commands use directly when no process
owns the plan.
"""
