"""The firing of hooks: what an agent's hooks are asked, when, and what their verdicts do.

`facts.py` is what a hook can look at; `rules.py` answers for rules, `smart.py` for agents, `programs.py` for programs
and functions, `claude_code.py` for scripts written for that contract. `moments.py` says what is to be asked when,
`lattice.py` what the verdicts come to, `firing.py` asks and `recording.py` writes it down.
"""
