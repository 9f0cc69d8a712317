"""Environment variables that decide which program a command runs, and git's settings for agents' commands. Pure.

Rights to some shell lines, such as `shell(git status)`, say nothing of the variables that a line runs with. So an agent
that may not run every line gives none of these to the commands that it adds:
`planloop.reconciler.admission.command_policy`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Final

_NAMES: Final = """
  *PATH *HOME *SHELL *_BIN *_BINARY *_EXE *_EXECUTABLE *_PROGRAM *_PYTHON *_INTERPRETER *_SCRIPT *_MODULE *_BACKEND
  IFS ENV *_ENV_FILE SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND ZDOTDIR INPUTRC
  *PAGER *EDITOR *BROWSER VISUAL LESS* MORE MAN* *OPTIONS *OPTS *_OPT *FLAGS *ARGS *COMMAND *_CMD *_EXEC *_RSH
  *ASKPASS *WRAPPER *LAUNCHER *PRELOAD* *STARTUP* *HOOK *HOOKS *PLUGIN *PLUGINS *CONFIG *_CONFIG_* CONFIG_* *_CONF
  *CONFIG_FILE *RC *RCFILE *INIT XDG_* TERMINFO* TERMCAP MALLOC_* GLIBC_TUNABLES HOSTALIASES
  BASH_* LD_* DYLD_* GIT_* HG* SVN_* CVS* P4* SSH_* RSYNC_* TAR_* GZIP XZ_* ZSTD_* UNZIP ZIPOPT RIPGREP_*
  FZF_* BAT_* DELTA_* PYTHON* PIP_* UV_* POETRY_* PIPENV_* CONDA_* VIRTUAL_ENV PYTEST_* TOX* NOX* MYPY* COVERAGE*
  NODE_EXTRA_* NODE_REPL_* NPM_* YARN_* PNPM_* COREPACK_* BUN_* DENO_* ELECTRON_*
  PERL* RUBY* GEM_* BUNDLE_* RAKE* LUA_* PHP* COMPOSER_* R_* JULIA_* ERL_* ELIXIR_* MIX_* OCAML*
  JAVA* _JAVA* JDK_* MAVEN_* MVN_* GRADLE_* SBT_* KOTLIN_* DOTNET_* CORECLR_* COMPLUS_* NUGET_* MSBUILD*
  CARGO_* RUST* GOFLAGS GOROOT GOENV GOBIN GOTOOL* GOPROXY GONO* GOPRIVATE GOSUMDB GOINSECURE GOVCS GOAUTH GODEBUG
  GOWORK GOEXPERIMENT GOCACHE* GOMODCACHE GCCGO CGO_*
  MAKE* MFLAGS CC CXX CPP LD AR AS NM RANLIB STRIP FC F77 LEX YACC GCC_* CLANG* LLVM_* CMAKE_* CTEST_* MESON* NINJA*
  CCACHE_* DISTCC_* SCCACHE_* PKG_CONFIG* COMPILER_* BINDGEN_* LIBTOOL* ACLOCAL* AUTOCONF AUTOMAKE AUTOHEADER
  DOCKER_* BUILDKIT_* BUILDX_* COMPOSE_* PODMAN_* CONTAINER_HOST CONTAINERS_* KUBE* HELM_* ANSIBLE_* VAGRANT_* PACKER_*
  TF_CLI_* TF_DATA_DIR TF_PLUGIN_* APT_* DEB_* DPKG_* RPM_* SYSTEMD_* DBUS_* SUDO_* GNUPGHOME GPG_* OPENSSL_* EMACS*
  FLASK_* UVICORN_* GUNICORN_* CELERY_* MPLBACKEND IPYTHON* JUPYTER_* TS_NODE_* JEST_* CYPRESS_* PLAYWRIGHT_*
  PUPPETEER_* NVM_* VOLTA_* FNM_* ASDF_* MISE_* PYENV_* RBENV_* NIX_* GUIX_* DIRENV_* SPACK_* LEFTHOOK* HUSKY*
  PRE_COMMIT_* ANT_* GROOVY_* SCALA_* LEIN_* CLJ_* TCL* TK_* GUILE_* STACK_* CABAL_* GHC_* ZIG_* SWIFT* BAZEL*
  SCONS* CROSS_COMPILE CC_* CXX_* *_CC *_CXX *_LD *_AR OBJCOPY OBJDUMP WINDRES INSTALL AWK SED M4 BISON YACC
  AWS_SHARED_CREDENTIALS_FILE CLOUDSDK_* GOOGLE_EXTERNAL_* PSQL* PGSERVICEFILE PGSYSCONFDIR MYSQL_* LIBMYSQL_*
  VK_* OCL_* FONTCONFIG_* GDK_* DEVELOPER_DIR SDKROOT
  VIM* QT_* GTK* GIO_* GST_* XAUTHORITY CLAUDE_* CODEX_*
"""
_STEERING: Final = re.compile("|".join(translate(name) for name in _NAMES.split()))

_COUNT: Final = "GIT_CONFIG_COUNT"
_OF_GIT: Final = (("safe.bareRepository", "explicit"), ("core.fsmonitor", "false"))
_HOOKS: Final = "core.hooksPath"


@lru_cache(maxsize=4096)
def is_steering_variable(name: str) -> bool:
    """Whether a variable decides which programs a command runs, or where it finds what does. Any case counts."""
    return _STEERING.fullmatch(name.upper()) is not None


def changed_steering_variables(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """The names of such variables that `before` and `after` do not give the same value."""
    names = dict.fromkeys((*before, *after))
    return tuple(name for name in names if is_steering_variable(name) and before.get(name) != after.get(name))


def with_git_settings(env: Mapping[str, str], *, may_run_all: bool, is_owners: bool) -> dict[str, str]:
    """`env` with git set for a command of an agent.

    Files that look like a repository do not make a folder one, and no program watches the work tree for git. Hooks run
    from `.git/hooks` only, and only for agents that `may_run_all` lines, since hooks run what is in the work tree.
    The user's configuration counts if `is_owners`: agents cannot write it. What `env` sets itself comes later and so
    counts more.
    """
    hooks = ".git/hooks" if may_run_all else "/dev/null"
    settings = [*_OF_GIT, (_HOOKS, hooks), *_given(env)]
    whole = {} if is_owners or may_run_all else {"GIT_CONFIG_GLOBAL": "/dev/null"}
    named = {name: value for at, pair in enumerate(settings) for name, value in zip(_names(at), pair, strict=True)}
    return {**whole, **env, **named, _COUNT: str(len(settings))}


def _given(env: Mapping[str, str]) -> list[tuple[str, str]]:
    """The settings that `env` has for git; none after the first that lacks its name or value."""
    count = env.get(_COUNT, "")
    found: list[tuple[str, str]] = []
    for at in range(int(count) if count.isdecimal() else 0):
        key, value = (env.get(name) for name in _names(at))
        if key is None or value is None:
            break
        found.append((key, value))
    return found


def _names(at: int) -> tuple[str, str]:
    return f"GIT_CONFIG_KEY_{at}", f"GIT_CONFIG_VALUE_{at}"
