"""The lock controller: grants locks in the order of waiting and priority, expires contested leases, and finds
deadlocks.
"""
