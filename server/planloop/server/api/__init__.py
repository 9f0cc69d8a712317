"""What may be asked of a plan over HTTP: the table of operations, the forms of what they take and give, and OpenAPI.

`table.py` has a row for each and loads nothing heavy; `requests.py` and `answers.py` are pydantic models, loaded with
the first body that is sent; `routing.py` and `checking.py` hold requests to them at both doors, the owner's socket and
the gateway; `openapi.py` describes it all. What is answered is `planloop.server`.
"""
