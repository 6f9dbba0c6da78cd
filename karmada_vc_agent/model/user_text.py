"""Texts of users: in messages, addresses, and YAML that people write."""

import difflib
import errno
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import yaml

_LONG_WORD = re.compile(r'(\S{64})\S{448,}?(["`]?:?)(?!\S)')
SHOWN = 10
"""Names that a message lists."""
JOIN_OF_THIS_VERSION = "run karmada-vc-agent join of the agent's own version, as after a rollback"
"""Rights and policies are those of the version whose `join` ran last."""


def one_line(text: object) -> str:
    """Return a text on one line, with non-printable characters escaped."""
    line = " ".join(str(text).split())
    if line.isprintable():
        return line
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in line
    )


def cut_words(text: str) -> str:
    """Return a text with `...` for the rest of words that are too long to read."""
    return _LONG_WORD.sub(r"\1...\2", text)


def listed(names: Sequence[str], shown: int = SHOWN, count: int = 0) -> str:
    """Return `a, b and 3 more`. count: of all of them, where `names` has only the first."""
    left = max(len(names), count) - len(names[:shown])
    return ", ".join(names[:shown]) + (f" and {left} more" if left > 0 else "")


def either(choices: Iterable[str]) -> str:
    """Join choices for people: `a, b or c`; empty ones are omitted."""
    *first, last = [choice for choice in choices if choice]
    return f"{', '.join(first)} or {last}"


def did_you_mean(name: object, choices: Iterable[str]) -> str:
    """Return `; did you mean "x"?` if a choice is similar, else ""."""

    def alike(text: str) -> str:
        return text.lower().replace("_", "").replace("-", "")

    plain = {alike(choice): choice for choice in choices}
    for similar in difflib.get_close_matches(alike(str(name)), plain, n=1):
        return f'; did you mean "{plain[similar]}"?'
    return ""


def shown(value: Any) -> str:
    """Format a value of YAML for a message: `"x"`, `5`, `true`, `a list`."""
    if isinstance(value, dict | list):
        return "a map" if isinstance(value, dict) else "a list"
    if isinstance(value, bool | int | float | str) or value is None:
        with suppress(ValueError):  # an integer with more digits than Python prints
            return json.dumps(value, ensure_ascii=False)
    return f"a long {type(value).__name__}" if isinstance(value, int) else str(value)


def text_problem(value: Any) -> str | None:
    """Return why a value of YAML is not a string, and how to write it as one; None if it is one."""
    if isinstance(value, str) or value is None:
        return None
    problem = f"is {shown(value)}, must be a string"
    if isinstance(value, dict | list):
        return problem
    return f'{problem}; write it in quotes: "{shown(value)}"'


_LEADING_ZEROS = re.compile(r"(?:^|(?<=[.:]))0+(?=\d+(?:\.|$))")
_PORT_MAX = 65535
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*\.?")


def plain_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return a canonical address, IPv4 even if mapped, `010.0.0.1` as decimal; None if invalid."""
    try:
        address = ip_address(_LEADING_ZEROS.sub("", text) if "." in text else text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def listen_problem(address: str, *, may_be_off: bool = True) -> str | None:
    """Return what is wrong with an address to listen on, or None; `0` and "" are none at all."""
    host, colon, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) <= _PORT_MAX
    if address in ("", "0") or (colon and is_port and (not host or is_host(host))):
        return None
    advice = f"write host:port or :port (at most {_PORT_MAX})"
    off = ", or 0 to disable it" if may_be_off else ""
    return f'"{address}" is not a valid address; {advice}{off}'


def is_host(text: str) -> bool:
    """Return True for a DNS name, an IPv4 address, or an IPv6 address in brackets."""
    if text.startswith("[") and text.endswith("]"):
        return ":" in text and plain_address(text[1:-1]) is not None
    if text.replace(".", "").isdigit():
        return plain_address(text) is not None
    return _HOST.fullmatch(text) is not None


LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in C if available."""


class YamlError(ValueError):
    """A problem in a YAML text, with its line if the parser gives one."""


def load_yaml(text: bytes | str) -> Any:
    """Return the single document of a YAML text. Raises YamlError, also for a duplicate key."""
    try:
        loader = LOADER(text)
        try:
            document = loader.get_single_node()
            refuse_repeated_keys(document)
            return None if document is None else loader.construct_document(document)
        finally:
            loader.dispose()
    except YamlError:
        raise
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # such as an impossible date
        raise YamlError(f"not valid YAML: {yaml_problem(error)}") from error


def refuse_repeated_keys(document: Any) -> None:
    """Raise YamlError for a duplicate key of a mapping; `<<` may repeat one."""
    seen: set[int] = set()
    nodes = [document]
    while nodes:
        node = nodes.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += reversed(node.value)
        if not isinstance(node, yaml.MappingNode):
            continue
        nodes += (value for _, value in reversed(node.value))
        lines: dict[tuple[str, str], int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in lines:
                problem = f'"{key.value}" is set twice, first in line {lines[name]}'
                raise YamlError(f"line {line}: {problem}; keep one of them")
            lines[name] = line


def yaml_problem(error: Exception) -> str:
    """Return what a parser of YAML says is wrong, and where."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, yaml.reader.ReaderError):
        return f"{error.reason} at position {error.position}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(error)
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return place + ", ".join(str(part) for part in (error.context, error.problem) if part)


LARGEST_FILE_MIB = 16


def read_small(path: Path) -> bytes:
    """Return the content of a file. Raises OSError, also for one that is too large."""
    most = LARGEST_FILE_MIB * 2**20
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        problem = f"has more than {LARGEST_FILE_MIB} MiB; no file of its kind has that much"
        raise OSError(errno.EFBIG, problem, str(path))
    return content
