"""Decodes settings into the structs that declare them; errors are one line."""

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from karmada_vc_agent.model import user_text
from karmada_vc_agent.model.quantity import Duration, Size, format_duration, of_whole
from karmada_vc_agent.model.virtual_cluster import Range

_INITIALISMS = {"api": "API", "qps": "QPS", "cidrs": "CIDRs", "dns": "DNS", "url": "URL"}


def camel(name: str) -> str:
    """Return the name of a setting in the file: `kube_api_qps` -> `kubeAPIQPS`."""
    first, *rest = name.split("_")
    return first + "".join(_INITIALISMS.get(word, word.capitalize()) for word in rest)


_FLAG_TYPES = (str, bool, int, float, Duration)
VARIABLE_PREFIX = "KARMADA_VC_AGENT"
REQUIRED = msgspec.NODEFAULT
"""The default of a setting that has none."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a struct of settings.

    kind: its type, without annotations and without None. default: REQUIRED if it has none.
    """

    name: str
    key: str
    kind: Any
    default: Any
    range: Range | None
    struct: type[msgspec.Struct]

    @property
    def help(self) -> str:
        """Return what it does, in Markdown."""
        bases = (*self.struct.__mro__, *getattr(self.struct, "added", ()))
        structs = (base for base in bases if issubclass(base, msgspec.Struct))
        helps = (_helps(each.__module__).get((each.__name__, self.name)) for each in structs)
        return next(filter(None, helps), "")

    @property
    def plain_help(self) -> str:
        """Return the same for terminals: a link is the path of its page."""
        return re.sub(r"\[[^]]*\]\(([^)]*)\)", r"docs/\1", self.help)

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the allowed strings, or () if any."""
        return choices_of(self.kind)

    @property
    def is_flag(self) -> bool:
        """Return whether it is a flag and an environment variable, too, as all single values."""
        return self.kind in _FLAG_TYPES or bool(self.choices)

    @property
    def flag(self) -> str:
        """Return its flag: `--agent-name`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """Return its environment variable: `KARMADA_VC_AGENT_AGENT_NAME`."""
        return f"{VARIABLE_PREFIX}_{self.name.upper()}"

    @property
    def default_text(self) -> str:
        """Return the default as written in settings, "" if empty."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, Duration):
            return format_duration(self.default)
        if isinstance(self.default, Size):
            return str(of_whole(self.default, "BinarySI"))
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


@cache
def settings_of(struct: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """Return the declared settings of a struct, one for each field; read once: that is slow."""
    return tuple(
        Setting(
            each.name,
            each.encode_name,
            bare(each.type),
            _default(each),
            getattr(each.type, "__metadata__", (None,))[0],
            struct,
        )
        for each in msgspec.structs.fields(struct)
    )


def flags_of(struct: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """Return those that are flags and environment variables, too."""
    return tuple(setting for setting in settings_of(struct) if setting.is_flag)


@cache
def _helps(module: str) -> Mapping[tuple[str, str], str]:
    """Return the docstrings below the fields of a module: class, field -> text on one line."""
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    classes = (each for each in body if isinstance(each, ast.ClassDef))
    return {
        (each.name, field.target.id): " ".join(text.value.value.split())
        for each in classes
        for field, text in pairwise(each.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr)
        if isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def _default(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def bare(declared: Any) -> Any:
    """Return a type without annotations and without None."""
    if get_origin(declared) is Annotated:
        return bare(get_args(declared)[0])
    if get_origin(declared) in (Union, UnionType):
        kinds = [kind for kind in get_args(declared) if kind is not type(None)]
        return bare(kinds[0]) if len(kinds) == 1 else declared
    return declared


def choices_of(declared: Any) -> tuple[str, ...]:
    """Return the strings that a Literal type allows, () for other types."""
    return get_args(declared) if get_origin(declared) is Literal else ()


def part_of(declared: Any) -> Any:
    """Return the element type of a list or the value type of a mapping, or None."""
    kinds = [kind for kind in get_args(bare(declared)) if kind is not Ellipsis]
    return bare(kinds[-1]) if kinds and not choices_of(bare(declared)) else None


def struct_of(declared: Any) -> type[msgspec.Struct] | None:
    """Return the struct behind a type, or None."""
    kind = bare(declared)
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return kind if is_struct else None


class ConfigError(Exception):
    """An invalid setting: its source, its path, and the problem."""

    def __init__(self, source: str, path: str, problem: str) -> None:
        text = f"{path}: {problem}" if path else problem
        super().__init__(user_text.one_line(f"{source}: {user_text.cut_words(text)}"))
        self.path = path
        self.problem = problem


_T = TypeVar("_T")

_PLACE = re.compile(r"(.*) - at (`key` in )?`\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_WRONG_TYPE = re.compile(r"Expected `(.*?)(?: \| null)?`, got `\w+`")
_MUST_BE = {
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "object": "a map",
    "array": "a list",
}
"""Type name in messages of msgspec -> type name in ours."""


def decode(raw: Any, struct: type[_T], source: str) -> _T:
    """Decode settings, or a part of them. Raises ConfigError; source: the path of the file."""
    try:
        return msgspec.convert(raw, struct, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise _located(str(error), raw, struct, source) from error


def decode_one(setting: Setting, given: Any, source: str, path: str) -> Any:
    """Decode one flag or environment variable. Raises ConfigError."""
    if setting.kind in (int, float) and isinstance(given, str):
        with suppress(ValueError):
            given = setting.kind(given)
    try:
        return msgspec.convert(given, setting.kind, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise ConfigError(source, path, _problem(str(error), given, setting.kind)) from error


def _read(kind: Any, given: Any) -> Any:
    try:
        return kind.read(given)
    except TypeError as error:
        raise ValueError(f"Expected `{kind.expected}`, got `{type(given).__name__}`") from error


def _located(message: str, raw: Any, struct: Any, source: str) -> ConfigError:
    place = _PLACE.fullmatch(message)
    problem, is_key, steps = place.groups() if place else (message, None, "")
    path, value, kind = "", raw, struct
    for name, index in _STEP.findall(steps):
        if name:
            kinds = {setting.key: setting.kind for setting in settings_of(kind)}
            path, value, kind = f"{path}.{name}", value[name], kinds[name]
            continue
        kind = part_of(kind)
        # The notation omits the keys of maps.
        key = int(index) if index else next(k for k, v in value.items() if not _fits(v, kind))
        path, value = f"{path}[{key}]", value[key]
    path = path.removeprefix(".")
    if is_key:
        no_text = next(key for key in value if not isinstance(key, str))
        return ConfigError(source, path, f"a key {_wrong_type('str', no_text)}")
    if field := _FIELD.fullmatch(problem):
        verdict, name = field.groups()
        is_unknown = verdict == "contains unknown"
        problem = f"is unknown{_meant(name, kind)}" if is_unknown else "is not set"
        return ConfigError(source, f"{path}.{name}".removeprefix("."), problem)
    return ConfigError(source, path, _problem(problem, value, kind))


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, dec_hook=_read)
    except msgspec.ValidationError:
        return False
    return True


def _problem(message: str, value: Any, kind: Any) -> str:
    wrong = _WRONG_TYPE.fullmatch(message)
    if choices := choices_of(kind):
        return f"is {user_text.shown(value)}, must be {user_text.either(choices)}"
    return _wrong_type(wrong[1], value) if wrong else message


def _wrong_type(expected: str, value: Any) -> str:
    problem = f"is {user_text.shown(value)}, must be {_MUST_BE.get(expected, expected)}"
    return user_text.text_problem(value) or problem if expected == "str" else problem


def _meant(field: str, kind: Any) -> str:
    keys = [setting.key for setting in settings_of(kind)] if struct_of(kind) else []
    if "matchLabels" in keys and "match" not in field:
        return f"; write labels as nodeSelector: {{matchLabels: {{{field}: ...}}}}"
    return user_text.did_you_mean(field, keys)
