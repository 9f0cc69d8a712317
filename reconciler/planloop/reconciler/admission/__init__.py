"""Admission: each patch is made canonical, checked, and recorded as accepted, held or rejected."""
