"""The owner's HTTP API on a unix socket, and the desk behind it that commands without an owner use directly."""
