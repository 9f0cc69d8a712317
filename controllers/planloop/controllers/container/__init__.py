"""Containers: started, kept as the plan wants them, watched and removed, in any engine."""
