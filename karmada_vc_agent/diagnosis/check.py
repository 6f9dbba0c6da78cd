"""`karmada-vc-agent check`: all mistakes in settings and VirtualCluster objects."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
from msgspec.structs import replace

from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import EXIT_SETTINGS, end, one_line_errors
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import HEADER, config_of, decode_file, with_descriptions
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.diagnosis.documents import Document, documents_of, steps_of
from karmada_vc_agent.diagnosis.report import counted
from karmada_vc_agent.features.objects.definitions import API_VERSION, DELETION_POLICIES, KIND
from karmada_vc_agent.model.objects import Object, copy_object, dig
from karmada_vc_agent.model.user_text import either, shown
from karmada_vc_agent.runner.common import all_problems

_Problem = tuple[str, str]
"""The path of a setting, and what is wrong with it."""
_PLACE = re.compile(r"virtualClusters\[\d+\][\w.]*")
_ALONE = "virtualClusters[0]"


class _Settings:
    """Content of a file, from which what is wrong is removed until the rest can be checked."""

    def __init__(self, struct: type[AgentConfig], raw: Object) -> None:
        self._struct = struct
        self._raw: Object = copy_object(raw)
        self._origins: dict[int, list[int]] = {}
        """By identity of a list that items were removed of: the indexes that its items had."""
        self.problems: dict[_Problem, None] = {}

    def read(self, finish: Callable[[AgentConfig], AgentConfig]) -> AgentConfig | None:
        """Return what can be read, None if nothing can; `problems` has all that is wrong."""
        while True:
            try:
                decoded = decode_file(self._struct, HEADER | copy_object(self._raw), "")
            except ConfigError as error:
                self.problems[self._original(error.path), error.problem] = None
                if not self._remove(error.path):
                    return None
                continue
            config = finish(config_of(self._struct, decoded))
            wrong, is_whole = _all(all_problems(config))
            for path, problem in wrong:
                if not self._follows(path, problem):
                    text = _PLACE.sub(lambda match: self._original(match[0]), problem)
                    self.problems[self._original(path), text] = None
            # What ended the checks is among what they yielded.
            removed = [self._remove(path) for path, _ in reversed(wrong) if not is_whole]
            if not any(removed):
                return config

    def _follows(self, path: str, problem: str) -> bool:
        """Return whether a setting only lacks what was removed, or has what is wrong for all."""
        place = self._original(path)
        entry, _, below = place.partition(".")
        if below.startswith("bounds") and (below, problem) in self.problems:
            return True
        of = f"{entry}.node" if below == "nodeSelector" else place
        return any(each.startswith(of) and each != place for each, _ in self.problems)

    def _original(self, path: str) -> str:
        """Return a path as the file has it: items before it may have been removed."""
        value: Any = self._raw
        text = ""
        for step in steps_of(path):
            if isinstance(value, list) and step.isdigit():
                origins, at = self._origins.get(id(value)), int(step)
                text += f"[{origins[at] if origins else at}]"
                value = value[at] if at < len(value) else None
            else:
                text += f".{step}" if "." not in step and "/" not in step else f"[{step}]"
                value = value.get(step) if isinstance(value, dict) else None
        return text.removeprefix(".")

    def _remove(self, path: str) -> bool:
        """Remove a value, or the nearest one around it that is there; return whether one was."""
        holder: Any = None
        key: Any = None
        value: Any = self._raw
        for step in steps_of(path):
            inner: Any = int(step) if isinstance(value, list) and step.isdigit() else step
            if not isinstance(value, dict | list) or (isinstance(value, list) and inner is step):
                break
            if inner not in (value if isinstance(value, dict) else range(len(value))):
                break
            holder, key, value = value, inner, value[inner]
        if isinstance(holder, list):
            self._origins.setdefault(id(holder), list(range(len(holder)))).pop(key)
        if holder is not None:
            del holder[key]
        return holder is not None


def _all(given: Iterable[tuple[str, str | None]]) -> tuple[list[_Problem], bool]:
    """Return what checks yield, and whether nothing ended them."""
    wrong: list[_Problem] = []
    try:
        for path, problem in given:
            if problem:
                wrong.append((path, problem))
    except (AttributeError, LookupError, TypeError, ValueError):
        return wrong, False
    return wrong, True


def settings_errors(
    document: Document, struct: type[AgentConfig]
) -> tuple[list[ConfigError], AgentConfig]:
    """Return what is wrong in a settings file, and its settings as far as they can be read."""
    content = dict(document.content)
    errors = [
        document.error(key, f'is {shown(given)}, must be "{HEADER[key]}"')
        for key in HEADER
        if (given := content.pop(key, None)) != HEADER[key]
    ]
    settings = _Settings(struct, content)
    config = settings.read(lambda each: each)
    by_line = sorted(settings.problems, key=lambda each: document.line(each[0]))
    return [*errors, *(document.error(*each) for each in by_line)], config or struct()


def object_errors(document: Document, config: AgentConfig) -> list[ConfigError]:
    """Return what is wrong in a VirtualCluster object. config: the defaults of what it lacks."""
    spec, name = document.content.get("spec"), dig(document.content, "metadata", "name")
    if not isinstance(spec, dict) or not isinstance(name, str):
        parts = {"metadata.name": isinstance(name, str), "spec": isinstance(spec, dict)}
        return [document.error(path, "is not set") for path, is_set in parts.items() if not is_set]
    given = {key: value for key, value in spec.items() if key not in ("deletionPolicy", "name")}
    settings = _Settings(type(config), {"virtualClusters": [{"name": name} | given]})
    settings.read(
        lambda each: with_descriptions(replace(config, virtual_clusters=each.virtual_clusters))
    )
    errors = [
        document.error(
            "metadata.name" if path == f"{_ALONE}.name" else f"spec{path.removeprefix(_ALONE)}",
            problem,
        )
        for path, problem in settings.problems
        if path.startswith(_ALONE)
    ]
    if (policy := spec.get("deletionPolicy", DELETION_POLICIES[0])) not in DELETION_POLICIES:
        problem = f"is {shown(policy)}, must be {either(DELETION_POLICIES)}"
        errors.append(document.error("spec.deletionPolicy", problem))
    return errors


def errors_in(documents: Iterable[Document], struct: type[AgentConfig]) -> Iterator[ConfigError]:
    """Yield what is wrong; settings among the documents are the defaults of the objects."""
    config, objects = struct(), []
    defined: dict[str, Document] = {}
    for document in documents:
        kind = dig(document.content, "kind")
        if kind == HEADER["kind"]:
            errors, config = settings_errors(document, struct)
            yield from errors
        elif kind == KIND and document.content.get("apiVersion") == API_VERSION:
            objects.append(document)
        else:
            expected = f"must be {HEADER['kind']} or {KIND} ({API_VERSION})"
            yield document.error("kind", f"is {shown(kind)}, {expected}")
        names = [dig(document.content, "metadata", "name")] if kind == KIND else []
        names += [vc.name for vc in config.virtual_clusters if kind == HEADER["kind"]]
        for name in filter(None, names):
            one = defined.setdefault(str(name), document)
            if one is not document:
                yield document.error("metadata.name", f'"{name}" is defined in {one.where()}, too')
    for document in objects:
        yield from object_errors(document, config)


@click.command(
    "check", epilog=shared.examples("check"), short_help="Find all mistakes in settings files."
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.pass_obj
def check(struct: type[AgentConfig], files: tuple[str, ...]) -> None:
    """Find all mistakes in settings files and files of VirtualCluster objects.

    Prints one line for each, with file and line, and ends with code 2 if there are any. Sends no
    request. A directory is all its YAML files, and `-` is standard input.
    """
    with one_line_errors():
        documents = documents_of(files)
        errors = dict.fromkeys(str(each) for each in errors_in(documents, struct))
        if errors:
            end(EXIT_SETTINGS, "\n".join(errors))
        click.echo(f"Nothing is wrong in {counted(len(documents), 'document')}")
