"""Container engines: the port, Docker and Podman behind it, and commands inside containers."""
