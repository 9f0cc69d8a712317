"""Random writes for the contract tests, and a model of the fold that shares no code with the product.

A recipe says what to write in terms of what is there ("the current uid", "a stale one"); `Model.write` turns it into a
draft against its own state, so that most writes hit something and some are fenced.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonpatch
from hypothesis import strategies as st

from tests.product import Change, Drop, Mark, Move, PatchSpec, Put, RecordDraft, SetStatus, Uid, op_from_json

ADDRESSES = ("task/a", "task/a/b", "task/c", "agent/a", "plan/p")
STALE = Uid("stale")

Sort = Literal["put", "patch", "status", "mark", "drop", "move"]

keys = st.sampled_from(["x", "y", "state", "é/~"])
plain = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "wörd", 'a"b', "\n"])
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3))
objects = st.dictionaries(keys, values, max_size=3)
patches = st.lists(
    st.one_of(
        st.builds(lambda key, value: {"op": "add", "path": f"/{_escape(key)}", "value": value}, keys, values),
        st.builds(lambda key, value: {"op": "replace", "path": f"/{_escape(key)}", "value": value}, keys, values),
        st.builds(lambda key: {"op": "remove", "path": f"/{_escape(key)}"}, keys),
    ),
    max_size=3,
)


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@dataclass(frozen=True)
class Recipe:
    """One change, to be aimed when the state is known."""

    sort: Sort
    address: str
    to: str
    uid: Literal["current", "stale", "fresh"]
    value: dict[str, Any]
    ops: list[dict[str, Any]]
    refs: tuple[str, ...]
    flag: bool


recipes = st.builds(
    Recipe,
    sort=st.sampled_from(["put", "put", "patch", "status", "status", "mark", "drop", "move"]),
    address=st.sampled_from(ADDRESSES),
    to=st.sampled_from(ADDRESSES),
    uid=st.sampled_from(["current", "current", "current", "stale", "fresh"]),
    value=objects,
    ops=patches,
    refs=st.lists(st.sampled_from(ADDRESSES), max_size=2, unique=True).map(tuple),
    flag=st.booleans(),
)
writes = st.lists(st.lists(recipes, max_size=4), max_size=12)


@dataclass
class Model:
    """The objects as JSON, by address."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    rev: int = 0
    minted: int = 0

    def write(self, recipe_list: list[Recipe]) -> tuple[RecordDraft, bool]:
        """The draft, and whether a store must take it; if so it is folded here."""
        before, changes = copy.deepcopy(self.objects), []
        is_sound = True
        for recipe in recipe_list:
            change = self._aim(recipe)
            changes.append(change)
            is_sound = is_sound and self._fold(change)
        if is_sound:
            self.rev += 1
        else:
            self.objects = before
        return RecordDraft("object.updated", "controller:test", ADDRESSES[0], tuple(changes), {"n": self.rev}), is_sound

    def _aim(self, recipe: Recipe) -> Change:
        current = self.objects.get(recipe.address)
        uid = STALE
        if recipe.uid == "current" and current is not None:
            uid = Uid(current["uid"])
        elif recipe.uid == "fresh" or recipe.sort == "put":
            self.minted += 1
            uid = Uid(f"u{self.minted}")
        match recipe.sort:
            case "put":
                owner = recipe.to if recipe.flag else None
                return Put(recipe.address, uid, recipe.value, recipe.refs, owner, ("task",) if recipe.flag else ())
            case "patch":
                return PatchSpec(recipe.address, tuple(op_from_json(n, op) for n, op in enumerate(recipe.ops)))
            case "status":
                return SetStatus(recipe.address, uid, recipe.value)
            case "mark":
                return Mark(recipe.address, uid, recipe.flag or None, () if recipe.flag else None)
            case "drop":
                return Drop(recipe.address, uid)
            case "move":
                return Move(recipe.address, uid, recipe.to)

    def _fold(self, change: Change) -> bool:
        rev = self.rev + 1
        at = change.address
        old = self.objects.get(at)
        if isinstance(change, Put):
            self.objects[at] = _put(old, change, rev)
            return True
        if isinstance(change, PatchSpec):
            if old is None:
                return True
            try:
                spec = jsonpatch.apply_patch(old["spec"], [op.to_json() for op in change.ops])
            except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
                return False
            self.objects[at] = old | {"spec": spec, "generation": old["generation"] + 1, "rev": rev}
            return True
        found = [one for one in self.objects.values() if one["uid"] == change.uid]
        if found:
            self._fold_fenced(found[0], change, rev)
        return True

    def _fold_fenced(self, old: dict[str, Any], change: SetStatus | Mark | Drop | Move, rev: int) -> None:
        at = old["address"]
        match change:
            case SetStatus():
                self.objects[at] = old | {"status": _merged(old["status"], change.merge), "rev": rev}
            case Mark():
                new: dict[str, Any] = {} if change.deleting is None else {"deleting": change.deleting}
                new |= {} if change.finalizers is None else {"finalizers": list(change.finalizers)}
                self.objects[at] = old | new | {"rev": rev}
            case Drop():
                del self.objects[at]
            case Move():
                if change.to not in self.objects:
                    del self.objects[at]
                    self.objects[change.to] = old | {"address": change.to, "kind": _kind(change.to), "rev": rev}


def _put(old: dict[str, Any] | None, change: Put, rev: int) -> dict[str, Any]:
    kept = old if old is not None and old["uid"] == change.uid else None
    return {
        "kind": _kind(change.address),
        "address": change.address,
        "uid": change.uid,
        "generation": kept["generation"] + 1 if kept else 1,
        "spec": change.spec,
        "status": kept["status"] if kept else {},
        "refs": list(change.refs),
        "owner": change.owner,
        "finalizers": list(change.finalizers),
        "deleting": kept["deleting"] if kept else False,
        "created_rev": kept["created_rev"] if kept else rev,
        "rev": rev,
    }


def _kind(address: str) -> str:
    return address.split("/", maxsplit=1)[0]


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for key, wanted in patch.items():
        if wanted is None:
            out.pop(key, None)
        else:
            out[key] = _merged(out.get(key), wanted)
    return out
