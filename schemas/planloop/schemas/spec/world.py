"""Fields of a simulated world: tables, and tools that read and change them. Not part of a plan."""

from __future__ import annotations

from typing import Final

from planloop.schemas.spec.field import (
    ANY,
    COUNT,
    FLAG,
    TEXT,
    TEXTS,
    WORD,
    Field,
    FieldTable,
    ListType,
    MapType,
    ScalarType,
    TableType,
)

_CONDITIONS: Final = MapType(ANY, is_id=False)
_IN: Final = Field("in", WORD, "The table.", "events")
_ID: Final = Field("id", ANY, "The id of a row.", "$id")
_WHERE: Final = Field("where", _CONDITIONS, "Which rows: conditions by field.", {"status": "open"})
_AS: Final = Field("as", WORD, "The name under which later steps find it.", "event")
_ELSE: Final = Field("else", TEXT, "What the caller is told when it cannot be done.", "There is no event ${id}.")

WORLD_TABLES: Final = (
    FieldTable(
        "world",
        "A simulated world, or (`pool`) tools that belong to none.",
        (
            Field("world", ScalarType("id"), "Its name.", "office"),
            Field("pool", ScalarType("id"), "The name of a set of tools without tables.", "decoys"),
            Field("about", TEXT, "What it simulates.", "A small office."),
            Field("values", _CONDITIONS, "Values that all tools find under `$name`.", {"me": "ada@orchard.example"}),
            Field("tables", MapType(MapType(ANY, is_id=False)), "Rows by id, by table.", {"todos": {"todo-1": {}}}),
            Field(
                "tools", MapType(TableType("world-tool"), is_id=False), "Tools by full name, such as `todo.add`.", {}
            ),
            Field("overlays", MapType(MapType(ANY), is_id=False), "Rows laid over the tables, by name.", {}),
            Field("laid", MapType(TEXT, is_id=False), "Which of the `overlays` the agents of a task find.", {}),
        ),
    ),
    FieldTable(
        "world-tool",
        "A simulated tool. Without `does` it changes nothing, whatever it says.",
        (
            Field("about", TEXT, "What a model is told of it.", "Adds a to-do."),
            Field("parameters", ANY, "The JSON Schema of its arguments.", {"type": "object", "properties": {}}),
            Field("does", ListType(TableType("world-step")), "Its steps, in order: all of them or none.", []),
            Field("returns", ANY, "What it answers; left out, `{ok: true}`.", "$todo"),
            Field("errors", TableType("world-errors"), "Fails at first, as services do.", {"first": 1}),
        ),
    ),
    FieldTable(
        "world-errors",
        "How a tool fails before it works.",
        (
            Field("first", COUNT, "How many calls fail.", 1, default=1),
            Field("says", TEXT, "What these answer.", "503: try again.", default="503: try again in a moment."),
        ),
    ),
    FieldTable(
        "world-step",
        "One step of a tool. With `when`, it is taken only where all of these conditions hold.",
        (
            Field("when", _CONDITIONS, "Conditions by what they are about.", {"$room": {"given": True}}),
            Field("get", TableType("world-get"), "Finds one row.", {"in": "events", "id": "$id"}),
            Field("find", TableType("world-find"), "Finds rows.", {"in": "events"}),
            Field("insert", TableType("world-insert"), "Adds a row.", {"in": "events", "id": "evt-"}),
            Field("update", TableType("world-update"), "Changes fields of rows.", {"in": "events", "id": "$id"}),
            Field("delete", TableType("world-delete"), "Takes rows away.", {"in": "events", "id": "$id"}),
            Field("append", TableType("world-append"), "Adds to a list in a row.", {"in": "events", "id": "$id"}),
            Field("remove", TableType("world-remove"), "Takes from a list in a row.", {"in": "events", "id": "$id"}),
            Field("require", TableType("world-require"), "Fails unless something holds.", {"that": {"$n": 1}}),
            Field("let", _CONDITIONS, "Gives names to values.", {"left": {"subtract": ["$a", "$b"]}}),
        ),
    ),
    FieldTable("world-get", "Finds one row.", (_IN, _ID, _AS, _ELSE), one_of=(("in",), ("id",))),
    FieldTable(
        "world-find",
        "Finds rows.",
        (
            _IN,
            _WHERE,
            Field("order", WORD, "The field by which they are sorted; left out, as they stand.", "start"),
            Field("descending", FLAG, "The other way round.", True, default=False),
            Field("limit", ANY, "At most this many.", "$limit"),
            Field("show", TEXTS, "Only these fields.", ["id", "title"]),
            _AS,
        ),
        one_of=(("in",), ("as",)),
    ),
    FieldTable(
        "world-insert",
        "Adds a row.",
        (
            _IN,
            Field("id", TEXT, "Its id; with a `-` at its end, the next number follows.", "evt-"),
            Field("with", _CONDITIONS, "Its fields.", {"title": "$title"}),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id",)),
    ),
    FieldTable(
        "world-update",
        "Changes fields of a row, or of all rows that `where` finds.",
        (
            _IN,
            _ID,
            _WHERE,
            Field("set", _CONDITIONS, "Fields; what was not given stays as it is.", {"title": "$title"}),
            Field("put", TableType("world-put"), "One entry of a field that is a map.", {"field": "shared"}),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id", "where")),
    ),
    FieldTable(
        "world-put",
        "One entry of a field that is a map.",
        (
            Field("field", WORD, "The field.", "shared"),
            Field("key", ANY, "Its key.", "$email"),
            Field("value", ANY, "What stands there.", "$access"),
        ),
        one_of=(("field",), ("key",), ("value",)),
    ),
    FieldTable(
        "world-delete",
        "Takes a row away, or all rows that `where` finds.",
        (_IN, _ID, _WHERE, _AS, _ELSE),
        one_of=(("in",), ("id", "where")),
    ),
    FieldTable(
        "world-append",
        "Adds a value to a list in a row, unless it is there.",
        (
            _IN,
            _ID,
            Field("to", WORD, "The field with the list.", "attendees"),
            Field("value", ANY, "What is added.", "$email"),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id",), ("to",), ("value",)),
    ),
    FieldTable(
        "world-remove",
        "Takes a value from a list in a row.",
        (
            _IN,
            _ID,
            Field("from", WORD, "The field with the list.", "attendees"),
            Field("value", ANY, "What is taken out.", "$email"),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id",), ("from",), ("value",)),
    ),
    FieldTable(
        "world-require",
        "Fails unless something holds.",
        (Field("that", _CONDITIONS, "Conditions by what they are about.", {"$order.status": "paid"}), _ELSE),
        one_of=(("that",), ("else",)),
    ),
)
