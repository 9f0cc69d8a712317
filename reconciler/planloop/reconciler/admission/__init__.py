"""Admission: convert each patch to canonical form, check it, and record it as accepted, held or rejected."""
