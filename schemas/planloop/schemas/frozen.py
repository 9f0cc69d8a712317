"""`@frozen` and `@mutable`: what `@dataclass(frozen=True, slots=True)` makes, and without `frozen`, made by msgspec.

A value takes a fifth of the time: a case of a benchmark makes a few hundred. A class takes a tenth: a short command
knows a hundred of them, for each of which the standard decorator compiles six functions. What is made here is a struct
of msgspec to its speed, and a dataclass to `replace`, `fields`, `asdict`, `match` and type checkers. Not here:
ordering, `__post_init__`, `InitVar`, `ClassVar`, keyword-only fields and inherited ones; a class that needs one takes
the standard decorator, and so does a class that a bare interpreter loads, without msgspec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field
from operator import attrgetter
from typing import Any, Final, Protocol, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import structs

T = TypeVar("T")


@dataclass(frozen=True)
class _Frozen:
    """Lends the standard decorator's marks for fields and parameters to the classes made here."""

    member: int = 0


@dataclass
class _Mutable:
    """The same to those whose members may be set."""


_OF_FROZEN: Final[Any] = getattr(_Frozen, "__dataclass_params__")  # noqa: B009 - not in the type of a class
_OF_MUTABLE: Final[Any] = getattr(_Mutable, "__dataclass_params__")  # noqa: B009 - as above
_KIND: Final[Any] = getattr(_Frozen.__dataclass_fields__["member"], "_field_type")  # noqa: B009 - as above


class _Remade(Protocol):
    def __call__(self, one: T, /, **members: Any) -> T: ...


remade: Final = cast("_Remade", structs.replace)
"""`dataclasses.replace` for what is made here, in a tenth of the time. Raises TypeError for no member of it."""


def members(one: Any) -> dict[str, Any]:
    """The members of what is made here by their names; the values are as they are in it, not copied."""
    return structs.asdict(one)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """The class as a frozen dataclass with slots, its own annotations being its fields."""
    return _frozen(cls)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def tagged(kind: str) -> Callable[[type[T]], type[T]]:
    """`frozen` for a member of a union: its JSON (`planloop.schemas.codec`) has `kind` in the member of that name."""
    return lambda cls: _frozen(cls, tag_field="kind", tag=kind)


def _frozen(cls: type[T], **config: Any) -> type[T]:
    fields = _fields(cls)
    namespace = _namespace(cls, fields) | {"__dataclass_params__": _OF_FROZEN}
    if compared := _compared(fields):
        namespace |= {"__eq__": _eq(compared), "__hash__": lambda self: hash(compared(self))}
    made: Any = msgspec.StructMeta(cls.__name__, (msgspec.Struct,), namespace, frozen=True, **config)
    return made  # type: ignore[no-any-return]


@dataclass_transform(field_specifiers=(field,))
def mutable(cls: type[T]) -> type[T]:
    """The class as a dataclass with slots whose members may be set: for what one owner keeps to itself."""
    fields = _fields(cls)
    namespace = _namespace(cls, fields) | {"__dataclass_params__": _OF_MUTABLE, "__hash__": None}
    if compared := _compared(fields):
        namespace["__eq__"] = _eq(compared)
    made: Any = msgspec.StructMeta(cls.__name__, (msgspec.Struct,), namespace)
    return made  # type: ignore[no-any-return]


_PER_CLASS: Final = frozenset({"__dict__", "__weakref__"})
"""What the class without slots had for its instances."""


def _fields(cls: type) -> dict[str, Field[Any]]:
    """The fields of a class by name. What is not made here is refused."""
    assert cls.__bases__ == (object,), f"{cls.__name__} inherits: take the standard decorator"
    assert "__post_init__" not in cls.__dict__, f"{cls.__name__} has a __post_init__: take the standard decorator"
    annotations: dict[str, Any] = cls.__annotations__
    fields = {name: _field(name, kind, cls.__dict__.get(name, MISSING)) for name, kind in annotations.items()}
    assert all(one.init for one in fields.values()), f"{cls.__name__} has init=False: take the standard decorator"
    has_default = [one.default is not MISSING or one.default_factory is not MISSING for one in fields.values()]
    assert has_default == sorted(has_default), f"{cls.__name__}: a field without a default follows one with it"
    return fields


def _field(name: str, kind: Any, default: Any) -> Field[Any]:
    one: Any = default if isinstance(default, Field) else field(default=default)
    assert one.kw_only is not True, f"{name} is for keywords only: take the standard decorator"
    one.name, one.type, one._field_type, one.kw_only = name, kind, _KIND, False
    return one  # type: ignore[no-any-return]


def _namespace(cls: type, fields: dict[str, Field[Any]]) -> dict[str, Any]:
    """What the struct has of the class, with the defaults as msgspec takes them."""
    namespace: dict[str, Any] = {key: value for key, value in cls.__dict__.items() if key not in _PER_CLASS}
    for name, one in fields.items():
        if one.default_factory is not MISSING:
            namespace[name] = msgspec.field(default_factory=one.default_factory)
        elif one.default is not MISSING:
            namespace[name] = one.default
        else:
            namespace.pop(name, None)
    namespace["__dataclass_fields__"] = fields
    if "__repr__" not in namespace and not all(one.repr for one in fields.values()):
        namespace["__repr__"] = _repr(tuple(name for name, one in fields.items() if one.repr))
    return namespace


def _compared(fields: dict[str, Field[Any]]) -> Callable[[Any], Any] | None:
    """What values are compared by where that is not all of them; None where it is, which msgspec does by itself."""
    names = [name for name, one in fields.items() if one.compare]
    if len(names) == len(fields):
        return None
    return attrgetter(*names) if names else lambda _: ()


def _eq(compared: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def eq(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or compared(self) == compared(other)

    return eq


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    def text(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return text
