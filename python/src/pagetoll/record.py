"""Frozen dataclasses from JSON objects and back.

A record has one field for each key of its JSON object, in the order in which the program writes them. Keys that it does
not know are kept in ``extra``, so that a bill of a newer program is written back as it was.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

R = TypeVar("R", bound="Record")
Reader = Callable[[Any], Any]

ALWAYS = {"always": True}
"""Metadata of a field that is written also where it is None or empty."""

_MISSING = object()


class WrongField(Exception):
    """A value is not what its field takes; ``path`` is built from the inside outwards, as errors pass."""

    def __init__(self, found: str, expected: str) -> None:
        self.path = ""
        self.found = found
        self.expected = expected

    def inside(self, step: str) -> WrongField:
        """The same error, seen from one level further outside."""
        self.path = f"{step}.{self.path}" if self.path and self.path[0] != "[" else step + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path or 'the file'}: found {self.found}, expected {self.expected}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What all records share."""

    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, hash=False)
    """Keys of the JSON object that have no field here, as they were."""

    @classmethod
    def from_json(cls: type[R], value: Any) -> R:
        """Reads a parsed JSON object.

        Raises ``WrongField`` where a key is missing or has another type.
        """
        if not isinstance(value, dict):
            raise WrongField(_shown(value), "an object")
        plan = _plan(cls)
        read = {}
        for name, reader in plan.readers:
            given = value.get(name, _MISSING)
            if given is not _MISSING:
                try:
                    read[name] = reader(given)
                except WrongField as wrong:
                    raise wrong.inside(name) from None
            elif name in plan.required:
                raise WrongField("nothing", "a value").inside(name)
        if len(read) < len(value):
            read["extra"] = {key: kept for key, kept in value.items() if key not in read}
        return cls(**read)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that it was read from."""
        written = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "extra" and (field.name in _plan(type(self)).always or value not in (None, (), {})):
                written[field.name] = _plain(value)
        return {**written, **self.extra}


_PLANS: dict[type[Record], _Plan] = {}


class _Plan(typing.NamedTuple):
    """How a class is read: computed once for each."""

    readers: list[tuple[str, Reader]]
    required: frozenset[str]
    always: frozenset[str]


def _plan(cls: type[Record]) -> _Plan:
    found = _PLANS.get(cls)
    if found is None:
        found = _PLANS[cls] = _planned(cls)
    return found


def _planned(cls: type[Record]) -> _Plan:
    hints = typing.get_type_hints(cls)
    fields = [field for field in dataclasses.fields(cls) if field.name != "extra"]
    required = {f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING}
    return _Plan(
        readers=[(field.name, _reader(hints[field.name])) for field in fields],
        required=frozenset(required),
        always=frozenset(required | {field.name for field in fields if field.metadata.get("always")}),
    )


def _reader(hint: Any) -> Reader:
    """The function that reads a value of a type."""
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint.from_json
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _optional(_reader(inner[0]))
    if origin is tuple:
        return _array(_reader(inner[0]))
    return _object(_reader(inner[1]))


def _scalar(expected: str, *accepted: type) -> Reader:
    """Reads a value of one of the types exactly: true is no number."""

    def read(value: Any) -> Any:
        if type(value) not in accepted:
            raise WrongField(_shown(value), expected)
        return value

    return read


_SCALARS: dict[Any, Reader] = {
    str: _scalar("a text", str),
    int: _scalar("a whole number", int),
    float: _scalar("a number", float, int),
    bool: _scalar("true or false", bool),
}


def _optional(reader: Reader) -> Reader:
    return lambda value: None if value is None else reader(value)


def _array(reader: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise WrongField(_shown(value), "a list")
        return tuple([_within(f"[{at}]", reader, item) for at, item in enumerate(value)])

    return read


def _object(reader: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise WrongField(_shown(value), "an object")
        return {key: _within(key, reader, item) for key, item in value.items()}

    return read


def _within(step: str, reader: Reader, value: Any) -> Any:
    try:
        return reader(value)
    except WrongField as wrong:
        raise wrong.inside(step) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
