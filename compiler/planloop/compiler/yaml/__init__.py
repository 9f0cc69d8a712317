"""Read and write YAML, with positions."""
