"""The task controller: from waiting to done, when the acceptance checks pass."""
