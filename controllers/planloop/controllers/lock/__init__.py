"""Lock controller: grant locks in the order of waiting and priority, expire contested leases, and find deadlocks."""
