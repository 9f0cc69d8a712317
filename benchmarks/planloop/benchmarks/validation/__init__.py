"""The graders are graded: oracles must pass, mutants die by the checks they name, cheats fail. Pure."""
