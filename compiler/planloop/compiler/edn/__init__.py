"""Read and write EDN, with positions."""
