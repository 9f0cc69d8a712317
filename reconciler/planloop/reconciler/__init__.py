"""The engine, in five parts; the bottom three know no kind of object by name.

`storing` keeps the log and its fold, `effects` runs processes that outlive us, `driving` turns changes into reconciles,
`admitting` is the one gate for edits of the plan, `editing` says what an edit comes to. Start with `contract.py` (what
a controller is), `storing/store.py` (what is stored) and `driving/engine.py` (what drives it).
"""
