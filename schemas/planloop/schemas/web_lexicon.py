"""The names of targets that every web check knows, as a check writes them: data, to which a suite adds its own.

Each is what people call such a thing; a pattern asks for the words that stand on it, whatever it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from planloop.schemas.encoding import JsonObject

_FIELD: Final = ["textbox", "searchbox", "combobox"]
_BUTTON: Final = ["button", "link", "menuitem", "tab"]
_ENTER: Final = {"key": "Enter"}
# Links that help with logging in ("Can't log in?", "No account?", "Forgot password?") refuse nobody, so no word alone
# that they have is among these.
_REFUSALS: Final = (
    r"\b(wrong|invalid|incorrect|denied|refused|rejected|declined|fail(ed|ure)?|unsuccessful(ly)?|bad|error|unknown)\b",
    r"\b(forbidden|unauthori[sz]ed|unrecogni[sz]ed|mismatch|sorry|oops|try again|no such|no match(es)?)\b",
    r"(\bnot|n['’]t) ((a|an|the|your) )?"
    r"(valid|match|recogni[sz]ed|found|allowed|correct|authori[sz]ed|right|accepted|permitted|known|possible)\b",
    r"\b(does|do|did) ?n[o'’]t (match|work|exist|fit)\b|\bwe do ?n[o'’]t know\b",
    r"\b(could ?n[o'’]t|(can ?not|can['’]t|unable to) (log|sign|let) you in)\b|\bcheck (your|the) credentials\b",
    r"\bno (user|account|one|person) ((was|is) )?(found|called|named|with (that|this|such|these))\b|\bno(pe)?[.!]*$",
)

SHIPPED: Final[Mapping[str, JsonObject]] = MappingProxyType(
    {
        "user-field": {
            "role": _FIELD,
            "name": r"/\b(user|e-?mail|account|login|nick|handle|who)|\bname\b/",
            "autocomplete": ["username", "email", "nickname"],
            "place": {"before": "pass-field"},
            "or": {"type": "email"},
        },
        "pass-field": {"type": "password", "or": {"role": _FIELD, "name": r"/pass|\bpin\b|secret/"}},
        "email-field": {
            "role": _FIELD,
            "name": "/e-?mail/",
            "autocomplete": "email",
            "or": {"type": "email"},
        },
        "name-field": {
            "role": _FIELD,
            "name": r"/\b(name|nick|handle|user|alias|call you)/",
            "autocomplete": ["name", "nickname", "username"],
            "place": "only",
        },
        "message-field": {
            "role": _FIELD,
            "name": r"/message|\bmsg\b|chat|\bsay\b|\btext\b|write|type|reply|talk/",
            "place": "last",
        },
        "search-field": {
            "role": ["searchbox", *_FIELD],
            "name": "/search|find|filter|query/",
            "place": "only",
            "or": {"type": "search"},
        },
        "text-field": {"role": _FIELD, "name": "/./", "place": "only"},
        "number-field": {"role": ["spinbutton", *_FIELD], "name": "/number|guess|amount|count/", "place": "only"},
        "login-button": {
            "role": _BUTTON,
            "name": r"/\b(log|sign) ?-?in\b|^(login|enter|continue|submit|go|next|ok|let me in|unlock)\b/",
            "place": "only",
            "or": _ENTER,
        },
        "logout-button": {"role": _BUTTON, "name": r"/\b(log|sign) ?-?(out|off)\b|^(exit|leave|bye)\b/"},
        "register-button": {
            "role": _BUTTON,
            "name": r"/\bsign ?-?up\b|register|create (an |your )?account|^join\b/",
            "or": _ENTER,
        },
        "join-button": {
            "role": _BUTTON,
            "name": "/join|enter|connect|start|continue|^(go|ok|set|save|submit)$/",
            "place": "only",
            "or": _ENTER,
        },
        "send-button": {
            "role": _BUTTON,
            "name": r"/\b(send|post|submit|say|reply|publish)\b|^(go|ok|➤|➢|→|▶|✈|📨|📤)$/",
            "place": {"after": "message-field"},
            "or": _ENTER,
        },
        "search-button": {"role": _BUTTON, "name": "/search|find|go/", "or": _ENTER},
        "start-button": {"role": _BUTTON, "name": r"/\b(start|play|begin|new game|go)\b|▶/"},
        "pause-button": {"role": _BUTTON, "name": r"/\b(pause|stop|hold)\b|⏸/"},
        "reset-button": {
            "role": _BUTTON,
            "name": r"/\b(reset|restart|new game|play again|again|clear|start over)\b|↻|⟳/",
        },
        "add-button": {"role": _BUTTON, "name": r"/\b(add|create|new|save)\b|^[+＋]$/", "or": _ENTER},
        "delete-button": {"role": _BUTTON, "name": r"/\b(delete|remove|discard|trash)\b|^[x×✕✖🗑]$/"},
        "save-button": {"role": _BUTTON, "name": r"/\b(save|apply|update|ok|done)\b/", "or": _ENTER},
        "plus-button": {
            "role": _BUTTON,
            "name": r"/^[+＋▲⬆➕]|\+ ?1|\b(plus|increment|increase|add|up|more|count)\b/",
            "place": "only",
        },
        "minus-button": {
            "role": _BUTTON,
            "name": r"/^[-−–▼⬇➖]|[-−] ?1|\b(minus|decrement|decrease|subtract|down|less|fewer)\b/",
        },
        "refusal": {
            "text": f"/{'|'.join(_REFUSALS)}/",
            "or": {"role": "alert"},
        },
        "alert": {"role": "alert"},
        "dialog": {"role": ["dialog", "alertdialog"]},
        "heading": {"role": "heading"},
        "message": {"role": ["listitem", "article", "comment"]},
        "picture": {"role": ["canvas", "img", "graphics-document"], "place": "first"},
        "main": {"role": "main", "or": {"role": "RootWebArea"}},
        "counter": {
            "role": ["status", "spinbutton", "timer", "meter"],
            "place": "first",
            "or": {"text": r"/^\D{0,20}-?\d+\D{0,20}$/"},
        },
    }
)
