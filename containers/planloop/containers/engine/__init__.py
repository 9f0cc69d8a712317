"""Container engines: the port, its implementation for Docker and Podman, and commands inside containers."""
