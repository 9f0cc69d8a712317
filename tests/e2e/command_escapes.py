"""Ways to run a program with no other right to commands than `shell(git status)`, each by name, with what stopped it.

`docs/reference/rights.md` shows the same table. A program that runs writes the file `ran`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

LINE: Final = "the line is not `git status`"
VARIABLE: Final = "the variable needs the bare `shell`"
COMMAND: Final = "the command is not `git status`"
FILE: Final = "agents do not write `.git`"
BARE: Final = "`safe.bareRepository=explicit`"
WATCHER: Final = "`core.fsmonitor=false`"
HOOKS: Final = "`core.hooksPath=/dev/null`"
CONFIGURED: Final = "git runs filters of its configuration only"

LINES: Final[Mapping[str, str]] = {
    "a second command": "git status; touch ran",
    "a command if it succeeds": "git status && touch ran",
    "a command if it fails": "git status || touch ran",
    "a pipe": "git status | tee ran",
    "a command in the background": "touch ran & git status",
    "a second line": "git status\ntouch ran",
    "a substitution": "git status $(touch ran)",
    "backticks": "git status `touch ran`",
    "a process substitution": "git status <(touch ran)",
    "a redirection": "git status > ran",
    "a redirection before the word": "> ran git status",
    "a here document": "git status <<E\n$(touch ran)\nE",
    "a subshell": "(touch ran; git status)",
    "a function": "git() { touch ran; }; git status",
    "an alias": "alias git='touch ran;'\ngit status",
    "eval": "eval 'touch ran; git status'",
    "env": "env touch ran",
    "xargs": "echo ran | xargs touch",
    "find": "find . -maxdepth 0 -exec touch ran ';'",
    "a shell": "sh -c 'touch ran; git status'",
    "an assignment before the word": "GIT_PAGER='touch ran' git -p status",
    "a setting before the subcommand": "git -c core.fsmonitor='touch ran; false' status",
    "an alias of git by a setting": "git -c alias.x='!touch ran' x",
    "another folder with git's programs": "git --exec-path=. status",
    "another repository by an option": "git --git-dir=bare status",
    "another folder by an option": "git -C bare status",
    "a program of the same name": "./git status",
    "a quoted word with more in it": "git 'status;touch ran'",
    "an escaped line end": "git status \\\n; touch ran",
    "a brace expansion": "{touch,ran}",
}

VARIABLES: Final = tuple(
    """
    GIT_CONFIG_COUNT GIT_CONFIG_GLOBAL GIT_CONFIG_PARAMETERS GIT_DIR GIT_EXEC_PATH GIT_PAGER GIT_EDITOR GIT_SSH_COMMAND
    GIT_EXTERNAL_DIFF GIT_TRACE PATH HOME XDG_CONFIG_HOME LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV SHELLOPTS IFS PAGER
    EDITOR LESSOPEN SSH_ASKPASS GCONV_PATH PYTHONSTARTUP NODE_OPTIONS PERL5OPT npm_config_script_shell GIT_WORK_TREE
    GIT_INDEX_FILE GIT_TEMPLATE_DIR GIT_ATTR_SOURCE GIT_ASKPASS GIT_PROXY_COMMAND DYLD_INSERT_LIBRARIES GLIBC_TUNABLES
    RUBYOPT JAVA_TOOL_OPTIONS MAKEFLAGS CONFIG_SITE CROSS_COMPILE CHROME_BIN CLOUDSDK_PYTHON DJANGO_SETTINGS_MODULE
    FLASK_APP MPLBACKEND AWS_SHARED_CREDENTIALS_FILE
    """.split()
)
"""Variables that a child task or its agent would be given."""

COMMANDS: Final[Mapping[str, Any]] = {
    "another command of a task": {"run": "touch ran"},
    "a program with the arguments `-c 'git status'`": {"run": ["./evil", "-c", "git status"]},
    "a program whose name has a blank": {"run": ["git status"]},
    "a check": {"goal": "x", "acceptance": [{"sh": "touch ran"}], "agent": {"script": [{"done": "x"}]}},
    "a program as an agent": {"goal": "x", "agent": {"run": "./evil"}},
}


@dataclass(frozen=True, slots=True)
class Repository:
    """Files that an agent writes in its folder before `git status`; `has` are those that the owner has there.

    `refused` are the files that it may not write. `settings` are those of the owner's own `.git/config`.
    """

    name: str
    stopped_by: str
    files: Mapping[str, str] = field(default_factory=dict)
    has: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    is_armed: bool = True


CORE: Final = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n"
WATCHED: Final = '\tfsmonitor = "touch ran; false"\n'
BARE_REPOSITORY: Final = {
    "HEAD": "ref: refs/heads/main\n",
    "objects/x": "x",
    "refs/heads/x": "",
    "config": CORE + WATCHED,
}
SCRIPT: Final = "#!/bin/sh\ntouch ran\n"
REPOSITORIES: Final = (
    Repository("a folder that looks like a repository", BARE, BARE_REPOSITORY),
    Repository(
        "a setting that such a folder includes",
        BARE,
        {
            **BARE_REPOSITORY,
            "config": f"{CORE}[include]\n\tpath = more\n",
            "more": f"[core]\n{WATCHED}",
        },
    ),
    Repository("a repository in the folder", FILE, {".git/config": "x"}, refused=(".git/config",), is_armed=False),
    Repository("a file that names a repository", FILE, {".git": "gitdir: bare"}, refused=(".git",), is_armed=False),
    Repository("a submodule's repository", FILE, {"lib/.git": "gitdir: x"}, refused=("lib/.git",), is_armed=False),
    Repository(
        "a program that the owner's core.fsmonitor names",
        WATCHER,
        {"watch.sh": SCRIPT},
        {"watch.sh": "#!/bin/sh\nexit 1\n"},
        {"core.fsmonitor": "./watch.sh"},
    ),
    Repository(
        "a hook where the owner's core.hooksPath leads",
        HOOKS,
        {"hooks/post-index-change": SCRIPT},
        {"hooks/post-index-change": "#!/bin/sh\n"},
        {"core.hooksPath": "hooks"},
    ),
    Repository(
        "what a hook in .git/hooks runs in the work tree",
        HOOKS,
        {"lint.sh": SCRIPT},
        {"lint.sh": "#!/bin/sh\n", ".git/hooks/post-index-change": "#!/bin/sh\nexec ./lint.sh\n"},
    ),
    Repository(
        "a program for differences in .gitattributes",
        CONFIGURED,
        {".gitattributes": "* diff=evil merge=evil\n", ".gitconfig": "[diff 'evil']\n\ttextconv = touch ran\n"},
        is_armed=False,
    ),
    Repository(
        "a filter in .gitattributes",
        CONFIGURED,
        {".gitattributes": "* filter=evil\n", ".gitconfig": "[filter 'evil']\n\tclean = touch ran\n"},
        is_armed=False,
    ),
)


def table() -> list[tuple[str, str]]:
    """Every way by its name, with what stopped it."""
    rows = [(name, LINE) for name in LINES]
    rows += [(f"`{name}` of a child", VARIABLE) for name in VARIABLES]
    rows += [(name, COMMAND) for name in COMMANDS]
    return rows + [(one.name, one.stopped_by) for one in REPOSITORIES]
