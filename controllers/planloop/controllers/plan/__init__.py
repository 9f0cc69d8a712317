"""The plan object: pending objects, overall state and conditions. Patches go to the gate."""
