"""The gate: every wish to change the plan is made canonical, judged, and recorded as accepted, held or refused."""
