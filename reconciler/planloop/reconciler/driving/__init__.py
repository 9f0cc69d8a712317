"""What drives reconcilers: the queue, the workers, what a change wakes, and the pools that work runs in."""
