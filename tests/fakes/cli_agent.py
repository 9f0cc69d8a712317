"""A small command-line agent, as people have them: a prompt in, work in the current folder, text or JSON lines out.

`cli_agent.py [--print text|lines|json] [--resume SESSION] [PROMPT]`; without PROMPT it reads stdin. It does what
the prompt says in lines of their own: `WRITE name words`, `SLEEP seconds`, `EXIT code`, `FAIL`, `SPAWN seconds`,
`SAY words`. It writes each prompt it was given into the file `prompts`, one JSON text a line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path


def say(line: str) -> None:
    """A line of output."""
    sys.stdout.write(line + "\n")


def work(prompt: str, session: str) -> tuple[str, bool]:
    """Does what the prompt says; what it would answer, and whether it says that it failed."""
    answer = f"did {len(prompt.splitlines())} lines in {session}"
    for line in prompt.splitlines():
        verb, _, rest = line.rpartition("Your task: ")[2].strip().partition(" ")
        match verb:
            case "WRITE":
                name, _, words = rest.partition(" ")
                Path(name).write_text(words + "\n")
            case "SLEEP":
                Path("sleeping").touch()
                time.sleep(float(rest))
            case "SPAWN":
                subprocess.Popen(["sleep", rest])
            case "EXIT":
                sys.stderr.write("something broke\n")
                raise SystemExit(int(rest))
            case "SAY":
                answer = rest
            case "FAIL":
                return "I could not", True
    return answer, False


def main() -> None:
    """One turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--print", dest="how", choices=("text", "lines", "json"), default="text")
    parser.add_argument("--resume", default="")
    parser.add_argument("prompt", nargs="?")
    asked = parser.parse_args()
    prompt = asked.prompt if asked.prompt is not None else sys.stdin.read()
    with Path("prompts").open("a") as log:
        log.write(json.dumps({"prompt": prompt, "resume": asked.resume}) + "\n")
    session = asked.resume or "s1"
    answer, is_error = work(prompt, session)
    usage = {"input_tokens": 100, "cache_read_input_tokens": 50, "output_tokens": 7}
    result = {"type": "result", "result": answer, "is_error": is_error, "session_id": session}
    result |= {"usage": usage, "total_cost_usd": 0.25}
    match asked.how:
        case "text":
            say(answer)
        case "json":
            say(json.dumps(result, indent=2))
        case _:
            say("starting up")
            say(json.dumps({"type": "system", "text": "hello", "session_id": session}))
            said = {"role": "assistant", "content": [{"type": "text", "text": "working"}]}
            say(json.dumps({"type": "assistant", "message": said}))
            say(json.dumps(result))


if __name__ == "__main__":
    main()
