"""Container specs and the engines that run them. Empty until containers are run; plans may already name them."""
