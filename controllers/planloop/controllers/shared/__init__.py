"""What several controllers use: lock leases, ledgers, sandboxes, workspaces and commands inside containers."""
