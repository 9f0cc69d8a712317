"""The log of a plan and its fold: the ports, the state folder, and who owns the plan."""
