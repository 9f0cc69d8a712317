"""A scripted OpenAI-compatible server, a program of its own: `python -m tests.fakes.model_server --script FILE`.

`script.py` has the format and who gets which step, `validating.py` what a vendor would refuse, `chunking.py` the pieces
of a reply, `serving.py` the HTTP, `running.py` starts it in tests. `tests/fakes/scripted_models.py` plays the same
scripts inside a process.
"""
