"""YAML of users: its documents, and in which line something is."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.model import user_text

_STEP = re.compile(r'\.?([^.\[\]]+)|\["?([^\]"]*)"?\]')
_SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
_MOST_NODES = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One document of a file, with the nodes that it was read of."""

    source: str
    node: yaml.Node
    content: Any

    def line(self, path: str = "") -> int:
        """Return the line of a field, or of the nearest one around it that is there.

        path: as ConfigError has it.
        """
        node, mark = self.node, self.node.start_mark
        for step in steps_of(path):
            below = next(_below(node, step), None)
            if below is None:
                break
            mark, node = below[0].start_mark, below[1]
        return int(mark.line) + 1

    def where(self, path: str = "") -> str:
        """Return `file:line` of a field, or of the nearest one around it."""
        return f"{self.source}:{self.line(path)}"

    def as_json(self) -> "Document":
        """Return what kubectl would send: keys, and dates, are strings. Raises ConfigError."""
        try:
            text = json.dumps(self.content, default=str, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise self.error("", f"is no JSON: {error}") from error
        return Document(self.source, self.node, json.loads(text))

    def error(self, path: str, problem: str) -> ConfigError:
        """Return the error of a field, which names file and line."""
        return ConfigError(self.where(path), path, problem)


def steps_of(path: str) -> list[str]:
    """Return the keys and indexes of a path, such as `virtualClusters[0].nodeSelector`."""
    return [name or index for name, index in _STEP.findall(path)]


def _below(node: yaml.Node, step: str) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield the key, and the value, that one step of a path leads to."""
    if isinstance(node, yaml.MappingNode):
        yield from ((key, value) for key, value in node.value if key.value == step)
    elif isinstance(node, yaml.SequenceNode) and step.isdigit():
        yield from ((item, item) for item in node.value[int(step) : int(step) + 1])


def documents_of(files: Sequence[str]) -> list[Document]:
    """Read files, directories and, as `-`, stdin. Raises ConfigError, also if they have nothing."""
    documents = [each for name in files for path in _files(name) for each in _read(path)]
    if files and not documents:
        raise ConfigError(", ".join(files), "", "empty, there is no YAML document in it")
    return documents


def _files(name: str) -> list[str]:
    if not name:
        raise ConfigError("flags", "FILE", "it is empty; give a path")
    if name == STDIN or not Path(name).is_dir():
        return [name]
    files = sorted(str(path) for path in Path(name).iterdir() if path.suffix in _SUFFIXES)
    if not files:
        raise ConfigError(name, "", f"has no {', '.join(_SUFFIXES)} file")
    return files


def _read(name: str) -> list[Document]:
    try:
        content = sys.stdin.buffer.read() if name == STDIN else user_text.read_small(Path(name))
    except OSError as error:
        raise ConfigError(name, "", error.strerror or str(error)) from error
    return _parsed(name, content)


def kustomized(directory: str, timeout_s: float = 60.0) -> list[Document]:
    """Return what `kubectl kustomize` makes of a directory. Raises ConfigError."""
    source = f"kustomize {directory}"
    command = ("kubectl", "kustomize", directory)
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            command, capture_output=True, check=False, timeout=timeout_s
        )
    except FileNotFoundError as error:
        raise ConfigError(source, "", "kubectl is not installed; it is what -k needs") from error
    except subprocess.TimeoutExpired as error:
        problem = f"kubectl did not end within {timeout_s:g} s; is a remote base out of reach?"
        raise ConfigError(source, "", problem) from error
    if done.returncode:
        raise ConfigError(source, "", user_text.one_line(done.stderr.decode(errors="replace")))
    return _parsed(source, done.stdout)


def _parsed(source: str, content: bytes) -> list[Document]:
    documents: list[Document] = []
    try:
        loader = user_text.LOADER(content)
        try:
            while loader.check_node():
                node = loader.get_node()
                user_text.refuse_repeated_keys(node)
                if _expanded(node, {}) > _MOST_NODES:
                    raise user_text.YamlError(
                        f"line 1: its aliases make more than {_MOST_NODES} values"
                    )
                content_of = loader.construct_document(node)
                documents += [] if content_of is None else [Document(source, node, content_of)]
        finally:
            loader.dispose()
    except user_text.YamlError as error:
        line, _, problem = str(error).removeprefix("line ").partition(": ")
        raise ConfigError(f"{source}:{line}", "", problem) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        lines = content[: getattr(error, "position", 0)].count(b"\n") + 1
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"{source}:{mark.line + 1 if mark else lines}"
        raise ConfigError(where, "", f"not valid YAML: {user_text.yaml_problem(error)}") from error
    return documents


def _expanded(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many nodes a node is once its aliases are copies; a circle is left to others."""
    if id(node) not in sizes:
        sizes[id(node)] = 0
        below = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = (part for each in below for part in (each if isinstance(each, tuple) else (each,)))
        sizes[id(node)] = 1 + sum(_expanded(part, sizes) for part in parts)
    return sizes[id(node)]
