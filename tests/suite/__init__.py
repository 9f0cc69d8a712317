"""How a run of the suite works: which tests run, what each may cost, and what a first failure means."""
