"""The process that runs a plan: composition of stores, controllers and effects; forks and replays; telemetry."""
