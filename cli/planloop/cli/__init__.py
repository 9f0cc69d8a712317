"""The commands: a module a verb, or a few verbs that belong together. `main` finds them without importing them."""
