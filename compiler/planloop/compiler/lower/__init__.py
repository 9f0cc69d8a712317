"""Turn a checked document into the objects that the plan wants."""
