"""Grant, queue and release locks, as changes for a record. When a lock expires is in
`planloop.controllers.lock.lease_expiry`. Pure.
"""
