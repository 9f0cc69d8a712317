"""Container specs, the engines that run them, the images they run from, and what encloses commands."""
