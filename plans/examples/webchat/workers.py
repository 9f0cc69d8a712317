"""The two workers of the web chat: agents made of code instead of a model.

planloop calls such a function once a turn with all it may know (`plan explain agent.python`) and does what it answers:
texts are said, maps are actions, one at a time or as a list. What a real agent would think up, these take from
`parts/`.
"""

from pathlib import Path

PARTS = Path(__file__).parent / "parts"


def frontend(turn):
    return work(turn, ["index.html", "test_page.py"], "python3 -m unittest test_page")


def backend(turn):
    return work(turn, ["chat.py", "client.py", "test_chat.py"], "python3 -m unittest test_chat")


def work(turn, names, test):
    """Writes the files one a turn, runs the tests, and claims to be done when they pass."""
    step = turn["memory"] or 0
    if step < len(names):
        content = (PARTS / names[step]).read_text()
        return [f"I write {names[step]}.", {"call": {"write": {"path": names[step], "content": content}}}, {"memory": step + 1}]
    if step == len(names):
        return ["I run the tests.", {"call": {"shell": {"command": test}}}, {"memory": step + 1}]
    result = turn["results"][0]["result"] if turn["results"] else {"state": "unknown"}
    if result["state"] != "Succeeded":
        return {"fail": f"the tests do not pass: {result.get('text', '')}"}
    return {"done": f"{', '.join(names)} written; the tests pass"}
