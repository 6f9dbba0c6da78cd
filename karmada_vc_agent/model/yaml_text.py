"""YAML that people write: rejects what PyYAML would accept, and endless files."""

import errno
from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in C if available."""


class YamlError(ValueError):
    """A problem in a YAML text, with its line if the parser gives one."""


def load(text: bytes) -> Any:
    """Return the single document of a YAML text. Raises YamlError, also for a duplicate key."""
    try:
        loader = _LOADER(text)
        try:
            document = loader.get_single_node()
            _refuse_repeated_keys(document)
            return None if document is None else loader.construct_document(document)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise YamlError(f"not valid YAML: {_place(error)}{_what(error)}") from error
    except yaml.reader.ReaderError as error:
        problem = f"{error.reason} at position {error.position}"
        raise YamlError(f"not valid YAML: {problem}") from error
    except RecursionError as error:
        raise YamlError("not valid YAML: nested too deeply") from error
    except YamlError:
        raise
    except (yaml.YAMLError, ValueError) as error:  # such as an impossible date
        raise YamlError(f"not valid YAML: {error}") from error


def _refuse_repeated_keys(document: Any) -> None:
    """Raise YamlError for the first mapping with a duplicate key; `<<` may repeat one."""
    seen: set[int] = set()
    nodes = [] if document is None else [document]
    while nodes:
        node = nodes.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            _refuse_repeated(node)
            nodes.extend(value for _, value in reversed(node.value))
        elif isinstance(node, yaml.SequenceNode):
            nodes.extend(reversed(node.value))


def _refuse_repeated(mapping: yaml.MappingNode) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in mapping.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        line, name = key.start_mark.line + 1, (key.tag, key.value)
        if name in lines:
            raise YamlError(
                f'line {line}: "{key.value}" is set twice, first in line {lines[name]}; '
                "keep one of them"
            )
        lines[name] = line


def _place(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def _what(error: yaml.MarkedYAMLError) -> str:
    return ", ".join(str(part) for part in (error.context, error.problem) if part)


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
