"""Figures as people read them: reports over several runs, and the line on the terminal while one runs."""
