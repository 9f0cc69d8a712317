"""`@frozen`: `@dataclass(frozen=True, slots=True)`, made five times as fast.

The standard decorator compiles six functions for every class, 0.3 ms of it; a short command imports a hundred classes
and would spend a quarter of its time there. Here only `__init__` is compiled and the rest is shared. What is made is
a dataclass to `replace`, `fields`, `asdict`, `match` and type checkers. Not here: ordering, `__post_init__`, `InitVar`,
`ClassVar`, keyword-only fields and inherited ones; a class that needs one takes the standard decorator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from operator import attrgetter
from typing import Any, Final, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass(frozen=True)
class _Pattern:
    """Lends the standard decorator's marks for fields and parameters to every class made here."""

    member: int = 0


def remade(one: T, **members: Any) -> T:
    """`dataclasses.replace` for what `@frozen` made, in about half the time. Raises KeyError for no member of it."""
    made: Any = one.__class__
    values = list(made.__members__(one))
    for name, value in members.items():
        values[made.__places__[name]] = value
    return made(*values)  # type: ignore[no-any-return]


_PARAMS: Final[Any] = getattr(_Pattern, "__dataclass_params__")  # noqa: B009 - not in the type of a class
_KIND: Final[Any] = getattr(_Pattern.__dataclass_fields__["member"], "_field_type")  # noqa: B009 - as above


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """The class as a frozen dataclass with slots, its own annotations being its fields."""
    assert cls.__bases__ == (object,), f"{cls.__name__} inherits: take the standard decorator"
    namespace: dict[str, Any] = {key: value for key, value in cls.__dict__.items() if key not in _PER_CLASS}
    annotations: dict[str, Any] = cls.__annotations__
    fields = {name: _field(name, kind, namespace.pop(name, MISSING)) for name, kind in annotations.items()}
    has_default = [one.default is not MISSING or one.default_factory is not MISSING for one in fields.values()]
    assert has_default == sorted(has_default), f"{cls.__name__}: a field without a default follows one with it"
    names = tuple(fields)
    shown = tuple(name for name, one in fields.items() if one.repr)
    compared = _getter(tuple(name for name, one in fields.items() if one.compare))
    namespace |= {
        "__slots__": names,
        "__match_args__": names,
        "__dataclass_fields__": fields,
        "__dataclass_params__": _PARAMS,
        "__eq__": _eq(compared),
        "__hash__": lambda self: hash(compared(self)),
        "__members__": staticmethod(_values(names)),
        "__places__": {name: place for place, name in enumerate(names)},
        "__reduce__": _reduce,
        "__setattr__": _refuse_set,
        "__delattr__": _refuse_delete,
    }
    if "__repr__" not in namespace:
        namespace["__repr__"] = _repr(shown)
    make: Any = type(cls)
    made: Any = make(cls.__name__, cls.__bases__, namespace)
    made.__init__ = _init_at_first(made, fields)
    return made  # type: ignore[no-any-return]


MANY: Final = 5  # Members from which the detour pays.

_PER_CLASS: Final = frozenset({"__dict__", "__weakref__"})
"""What the class without slots had for its instances."""


def _field(name: str, kind: Any, default: Any) -> Field[Any]:
    one: Any = default if isinstance(default, Field) else field(default=default)
    one.name, one.type, one._field_type, one.kw_only = name, kind, _KIND, False
    return one  # type: ignore[no-any-return]


def _init_at_first(made: Any, fields: dict[str, Field[Any]]) -> Callable[..., None]:
    """Makes the class's own `__init__` when the first of it is made: a command makes few of the classes it knows."""

    def __init__(self: Any, *values: Any, **members: Any) -> None:  # noqa: N807 - it stands for that
        made.__init__ = _init(made, fields)
        made.__init__(self, *values, **members)

    return __init__


def _init(made: Any, fields: dict[str, Field[Any]]) -> Callable[..., None]:
    """The one function that differs from class to class in more than names."""
    known: dict[str, Any] = {"_missing": MISSING}
    parameters, lines = ["self"], []
    for name, one in fields.items():
        if one.default is not MISSING:
            known[f"_default_{name}"] = one.default
            parameters.append(f"{name}=_default_{name}")
        elif one.default_factory is not MISSING:
            known[f"_make_{name}"] = one.default_factory
            parameters.append(f"{name}=_missing")
            lines.append(f" if {name} is _missing: {name} = _make_{name}()")
        else:
            parameters.append(name)
    lines += _one_by_one(known, made, fields) if len(fields) < MANY else _detour(known, made, fields)
    found: dict[str, Any] = {}
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass"), known, found)
    return found["__init__"]  # type: ignore[no-any-return]


def _one_by_one(known: dict[str, Any], made: Any, fields: dict[str, Field[Any]]) -> list[str]:
    """The lines that set few members: each by its slot, which takes two thirds of the time of `object.__setattr__`."""
    known |= {f"_put_{name}": made.__dict__[name].__set__ for name in fields}
    return [f" _put_{name}(self, {name})" for name in fields]


def _detour(known: dict[str, Any], made: Any, fields: dict[str, Field[Any]]) -> list[str]:
    """The lines that set many members: two to four times as fast in a class with the same slots that refuses nothing.

    The instance is of that class while it is being made. One of a derived class has another layout and cannot be.
    """
    known |= {
        "_set": object.__setattr__,
        "_made": made,
        "_open": type(made.__name__, (), {"__slots__": tuple(fields)}),
        "_each": _set_each,
    }
    opened = [f"  self.{name} = {name}" for name in fields]
    return [
        " if self.__class__ is _made:",
        "  _set(self, '__class__', _open)",
        *opened,
        "  self.__class__ = _made",
        f" else: _each(self, ({', '.join(fields)}))",
    ]


def _set_each(self: Any, values: tuple[Any, ...]) -> None:
    for name, value in zip(self.__dataclass_fields__, values, strict=True):
        object.__setattr__(self, name, value)


def _getter(names: tuple[str, ...]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _values(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """All of `names` as a tuple, where `attrgetter` of one name gives no tuple."""
    return attrgetter(*names) if len(names) > 1 else lambda one: tuple(getattr(one, name) for name in names)


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


def _reduce(self: Any) -> tuple[Any, ...]:
    return type(self), tuple(getattr(self, name) for name in self.__slots__)


def _refuse_set(self: Any, name: str, value: object) -> None:
    del self, value
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    del self
    raise FrozenInstanceError(f"cannot delete field {name!r}")
