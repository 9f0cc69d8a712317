"""Records of the log, and the fold that makes objects of them."""
