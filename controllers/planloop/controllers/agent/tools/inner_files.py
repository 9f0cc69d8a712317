"""Files that are only in a container: read, replaced, listed and searched by small scripts that run in there.

They run as the agent's commands do, so its user, its mounts and what is in memory count. Nothing is done through links:
a path that leads elsewhere is refused with where it leads, because locks and rights are about that. A file is replaced
in one step, when all of the new content is there and the old is still the one that was looked at.
"""

from __future__ import annotations

import re
from typing import Final

from planloop.containers.engine import Ended, EngineFailed, Inside
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.finding import LINE_SHOWN_CHARS, Found
from planloop.controllers.agent.tools.placing import Within, targets
from planloop.controllers.agent.tools.shell import time_bound_s
from planloop.controllers.agent.tools.tool import Context
from planloop.controllers.agent.tools.workspace import START_BYTES, oversize
from planloop.reconciler.effects.clamping import last_line
from planloop.reconciler.effects.processes import Ending
from planloop.schemas import limits, patterns
from planloop.schemas.encoding import digest, printable
from planloop.schemas.file_text import text_of
from planloop.schemas.frozen import frozen

OURS: Final = "PLANLOOP_OURS"
"""The variable of the scripts with the places where folders of the plan are mounted, in lines."""

_HEAD: Final = r"""
exec 2>/dev/null
LC_ALL=C
newline='
'
p=$1 folder=${1%/*} at= system=
leads() { printf '%s' "$1"; exit 75; }
look() {
  real=$(cd -P -- "$1" && pwd -P) || exit 78
  [ "$real" = "$1" ] || { [ "$real" = / ] && real=; leads "$real${p#"$1"}"; }
  ours=$(
    IFS="$newline"
    set -f
    for target in $PLANLOOP_OURS; do
      at=$(cd -P -- "$target" && pwd -P) || continue
      case $real/ in ("$at"/*) [ "$at" = "$target" ] || { printf '%s' "$target${p#"$at"}"; break; };; esac
    done
  )
  [ -z "$ours" ] || leads "$ours"
}
"""
_READ: Final = (
    _HEAD
    + r"""
[ -d "${folder:-/}" ] || exit 71
look "${folder:-/}"
[ -L "$p" ] && leads "$(readlink -f "$p" || readlink "$p")"
[ -e "$p" ] || exit 72
[ -f "$p" ] || exit 73
[ -r "$p" ] || exit 78
size=$(stat -c %s "$p") || exit 79
[ "$size" -le "$2" ] || { printf '%s\n' $size; head -c "${3:-0}" "$p"; exit 74; }
sum=$(sha256sum <"$p") || exit 79
printf '%s\n' "${sum%% *}"
cat "$p"
"""
)
_WRITE: Final = (
    _HEAD
    + r"""
at=${folder:-/}
while [ ! -d "$at" ]; do
  { [ -e "$at" ] || [ -L "$at" ]; } && exit 71
  at=${at%/*} at=${at:-/}
done
look "$at"
[ -L "$p" ] && leads "$(readlink -f "$p" || readlink "$p")"
mkdir -p "${folder:-/}" || exit 77
cd -P "${folder:-/}" || exit 77
name=./${p##*/} new=./$4
trap 'rm -f "$new"' EXIT
now=-
if [ -e "$name" ]; then
  [ -f "$name" ] || exit 73
  [ -w "$name" ] || exit 77
  cp -p "$name" "$new" || exit 77
fi
cat >"$new" || exit 77
sum=$(sha256sum <"$new") || exit 79
[ "${sum%% *}" = "$3" ] || exit 76
if [ -e "$name" ]; then
  sum=$(sha256sum <"$name") || exit 79
  now=${sum%% *}
fi
[ "$now" = "$2" ] || exit 70
mv -f "$new" "$name" || exit 77
"""
)
_FIND: Final = (
    _HEAD
    + r"""
[ -e "$p" ] || exit 71
[ -d "$p" ] || exit 73
look "$p"
cd -P "$p" || exit 78
most=$2
shift 2
[ "$p" = / ] && system='-o -path ./proc -o -path ./sys -o -path ./dev'
find . \( -name .git -o -name .plan $system \) -prune -o -type f "$@" | head -n "$most"
exit 0
"""
)
_CHANGED: Final = 70
_TOO_LARGE: Final = 74
_FAULTS: Final = {
    71: ("NotFound", "there is no folder `{folder}` in `{name}`"),
    72: ("NotFound", "there is no file `{at}` in `{name}`"),
    73: ("NotAFile", "`{at}` in `{name}` is of another kind"),
    75: ("BadPath", "`{at}` in `{name}` leads through a link, to `{said}`: name that"),
    76: ("NotWritable", "`{at}` did not arrive whole in `{name}`, and is as it was: try again"),
    77: ("NotWritable", "`{at}` in `{name}`: its user may not write it, or nothing can be written there"),
    78: ("NotReadable", "`{at}` in `{name}`: its user may not read it"),
}
"""What the scripts' own exit codes mean."""

_SIZED: Final = re.compile(r"(\d+) \./(.+)")
_HIT: Final = re.compile(r"\./(.+?):(\d+):(.*)")
_TIME_S: Final = 60.0


@frozen
class Content:
    """A file's bytes, and the digest of what really is there: secrets of the container are masked in what comes out."""

    content: bytes
    digest: str


async def read(context: Context, within: Within) -> Content:
    """The regular file at `within`. Raises ToolFailed: NotFound, NotAFile, TooLarge, NotReadable, BadPath, NotUp …."""
    most = limits.FILE_BYTES_MAX
    words = (_READ, within.path, str(most), str(START_BYTES))
    ended = await _run(context, within, words, bytes_max=most + 100)
    if ended.ending is Ending.TOO_MUCH_OUTPUT:
        raise ToolFailed("TooLarge", f"`{within.path}` has more than {most} bytes")
    told, _, content = ended.output.partition(b"\n")
    return Content(content, told.decode(errors="replace"))  # A container may have a `sha256sum` of its own.


async def replace(context: Context, within: Within, content: bytes, expected: str | None) -> bool:
    """Puts `content` there in one step if the file is still that with the digest `expected`, None: if there is none.

    False when it is not. Folders on the way are made. The file keeps its permissions.
    """
    temporary = f".{within.path.rpartition('/')[2][:100]}.{context.spec.op}.tmp"
    words = (_WRITE, within.path, expected or "-", digest(content), temporary)
    return (await _run(context, within, words, stdin=content)).code == 0


async def below(context: Context, within: Within, most: int) -> list[Found]:
    """At most `most` files below the folder, in order of their names."""
    words = (_FIND, within.path, str(most), "-exec", "stat", "-c", "%s %n", "{}", "+")
    lines = (await _run(context, within, words)).output.decode(errors="surrogateescape").splitlines()
    found = [match for line in lines if (match := _SIZED.fullmatch(line))]
    return sorted(
        (Found(printable(one[2]), _joined(within.path, printable(one[2])), int(one[1])) for one in found),
        key=lambda each: each.below.split("/"),
    )


async def hits(context: Context, within: Within, glob: str, text: str, any_case: bool) -> list[tuple[str, str]]:
    """The path and the line `path:number: line` of each that holds `text`, of files that are text and not large."""
    if "\n" in text:
        return []  # No line holds that.
    flags = "-HnFi" if any_case else "-HnF"
    small = ("-size", f"-{limits.FILE_BYTES_MAX + 1}c")
    words = (_FIND, within.path, str(limits.FILES_SEARCHED_MAX), *small, "-exec", "grep", flags, "-e", text, "{}", "+")
    ended = await _run(context, within, words, bytes_max=limits.OUTPUT_KEPT_BYTES_MAX)
    out = []
    for raw in ended.output.split(b"\n"):
        match = _HIT.fullmatch(_text(raw))
        if match and patterns.any_path([glob], match[1]):
            out.append((_joined(within.path, match[1]), f"{match[1]}:{match[2]}: {match[3][:LINE_SHOWN_CHARS]}"))
    return out


def _text(line: bytes) -> str:
    """A line of any encoding that has no NUL; empty for binary."""
    text = text_of(line.removesuffix(b"\r"))
    return "" if text is None else text.shown


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


async def _run(
    context: Context, within: Within, words: tuple[str, ...], *, stdin: bytes = b"", bytes_max: int | None = None
) -> Ended:
    """The end of a script that did its work, found that the file is another, or wrote too much. Raises ToolFailed."""
    name, containers = within.place.name, context.world.containers
    if containers is None:
        raise ToolFailed("NoContainers", "nothing runs in containers here")
    bound_s = min(_TIME_S, time_bound_s(context, None))
    found = await containers.settled(name, min(bound_s, limits.CONTAINER_WAIT_S))
    if found is None or not found.is_up:
        raise ToolFailed("NotUp", f"the plan has no container `{name}`" if found is None else found.words)
    argv = ("/bin/sh", "-c", words[0], "sh", *words[1:])
    # Where folders of the plan are laid in through a link of the image, its files have one name all the same.
    env = {OURS: "\n".join(targets(context, within.place))}
    inside = Inside(argv, context.spec.op, env, stdin=stdin, timeout_s=bound_s, output_bytes_max=bytes_max)
    try:
        ended = await containers.run(found.id, inside)
    except EngineFailed as failed:
        raise ToolFailed(str(failed.reason), failed.words) from failed
    if ended.ending is Ending.TOO_MUCH_OUTPUT or (ended.ending is Ending.EXITED and ended.code in (0, _CHANGED)):
        return ended
    raise _fault(within, ended)


def _fault(within: Within, ended: Ended) -> ToolFailed:
    at, name = within.path, within.place.name
    match ended.ending:
        case Ending.TIMED_OUT:
            return ToolFailed("TimedOut", f"`{at}` in `{name}` took too long")
        case Ending.LOST:
            return ToolFailed("NotUp", f"the container `{name}` went away meanwhile")
        case Ending.EXITED if ended.code == _TOO_LARGE:
            told, _, start = ended.output.partition(b"\n")
            return oversize(at, int(told) if told.isdigit() else 0, start, limits.FILE_BYTES_MAX)
        case Ending.EXITED if ended.code in _FAULTS:
            reason, words = _FAULTS[ended.code]
            said = printable(ended.output.decode(errors="replace"))
            folder = at.rpartition("/")[0] or "/"
            return ToolFailed(reason, words.format(at=at, name=name, said=said, folder=folder))
        case _:
            why = f"the image of `{name}` needs /bin/sh, sha256sum and the like for file tools"
            return ToolFailed("NotReadable", f"{why}: {last_line(ended.output) or f'exit code {ended.code}'}")
