"""Cases that a generic client makes of one object, and how two answers to one are compared."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.lab.api import Object, collection_of

LISTED = Path(__file__).parents[1] / "corpus" / "gateway_differences.yaml"
JSON = "application/json"
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
METADATA = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
WATCH_LIST = (
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    "&allowWatchBookmarks=true&timeoutSeconds=1"
)
_VARIES = re.compile(
    r"(^|\.)(uid|resourceVersion|creationTimestamp|deletionTimestamp|managedFields|generation)(\.|$)"
    r"|clusterIPs?(\.|$)|\bcontroller-uid$|\.time$|remainingItemCount$"
)
"""Paths of what two API servers never say alike."""
_AGES = frozenset({"Age", "Cluster-IP", "Last Seen", "Created At", "Duration"})


@dataclass(frozen=True)
class Request:
    """One request of a client."""

    method: str
    path: str
    accept: str = JSON
    form: str = ""
    body: Any = None

    @property
    def content(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()


Ask = Callable[[Request], tuple[int, bytes]]


def cases_of(obj: Object) -> Iterator[tuple[str, Request]]:
    """Yield a name and a request of each; writes are dry runs, so that the order is all one."""
    several, name = collection_of(obj), obj["metadata"]["name"]
    one = f"{several}/{name}"
    everywhere = several.replace("/namespaces/shop", "")
    yield "get", Request("GET", one)
    yield "get as a table", Request("GET", one, TABLE)
    yield "get metadata", Request("GET", one, METADATA)
    yield "get what is missing", Request("GET", f"{several}/missing")
    yield "list", Request("GET", several)
    yield "list as a table", Request("GET", several, TABLE)
    yield "list metadata", Request("GET", several, METADATA_LIST)
    yield "list by label", Request("GET", f"{several}?labelSelector=app%3Dweb")
    yield "list by no label", Request("GET", f"{several}?labelSelector=app%3Dnone")
    yield "list by name", Request("GET", f"{several}?fieldSelector=metadata.name%3D{name}")
    yield "list by a wrong field", Request("GET", f"{several}?fieldSelector=x%3Dy")
    yield "list a page", Request("GET", f"{several}?limit=500")
    if obj["kind"] != "Secret":  # in one namespace at a time, docs/gateway.md
        yield "list in all namespaces", Request("GET", f"{everywhere}?labelSelector=app%3Dweb")
    yield "watch-list", Request("GET", f"{several}?{WATCH_LIST}")
    dry = "dryRun=All&fieldManager=test"
    labels = {"metadata": {"labels": {"k": "v"}}}
    head = {key: obj[key] for key in ("apiVersion", "kind")}
    applied = {**head, "metadata": {"name": name, **labels["metadata"]}}
    operations = [{"op": "add", "path": "/metadata/labels/k", "value": "v"}]
    yield "merge patch", Request("PATCH", f"{one}?{dry}", form=MERGE, body=labels)
    yield "strategic patch", Request("PATCH", f"{one}?{dry}", form=STRATEGIC, body=labels)
    yield "json patch", Request("PATCH", f"{one}?{dry}", form=PATCH, body=operations)
    yield "apply", Request("PATCH", f"{one}?{dry}", form=APPLY, body=applied)
    yield "create again", Request("POST", f"{several}?{dry}", form=JSON, body=obj)
    wrong = {**head, "metadata": {"name": "Not A Name"}}
    yield "create by a wrong name", Request("POST", f"{several}?{dry}", form=JSON, body=wrong)
    yield "delete what is missing", Request("DELETE", f"{several}/missing")


def differences(first: tuple[int, bytes], second: tuple[int, bytes]) -> dict[str, tuple[Any, Any]]:
    """Return path -> both values, of what two answers say differently."""
    return differing(*({"code": code, **_read(content)} for code, content in (first, second)))


def differing(first: Any, second: Any) -> dict[str, tuple[Any, Any]]:
    """Return path -> both values, of what two parsed answers say differently."""
    told = [dict(_flat(each)) for each in (first, second)]
    return {
        path: (told[0].get(path), told[1].get(path))
        for path in sorted(told[0].keys() | told[1].keys())
        if told[0].get(path) != told[1].get(path) and not _VARIES.search(path)
    }


def _read(content: bytes) -> Any:
    lines = content.splitlines()
    if len(lines) != 1:  # of a watch
        events = [json.loads(line) for line in lines]
        return {"events": [each for each in events if each["type"] != "BOOKMARK"]}
    answer = json.loads(content)
    return without_ages(answer) if answer.get("kind") == "Table" else answer


def without_ages(table: Object) -> Object:
    """Take out of a Table what no two clusters say alike."""
    at = [n for n, each in enumerate(table["columnDefinitions"]) if each["name"] in _AGES]
    for row in table["rows"]:
        row["cells"] = [cell for n, cell in enumerate(row["cells"]) if n not in at]
    return table


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _flat(each, f"{path}.{number}")
    else:
        yield path, value


class Listed:
    """The differences that are allowed to one client; used: those that were needed."""

    def __init__(self, client: str) -> None:
        entries: list[dict[str, str]] = yaml.safe_load(LISTED.read_text())
        self._entries = [each for each in entries if _fits(each, "client", client)]
        self._used: set[int] = set()

    def allows(self, kind: str, case: str, path: str) -> bool:
        for number, entry in enumerate(self._entries):
            found = (("kind", kind), ("case", case), ("path", path))
            if all(_fits(entry, name, value) for name, value in found):
                self._used.add(number)
                return True
        return False

    def stale(self) -> list[Any]:
        return [each for each in self._entries if self._entries.index(each) not in self._used]


class Comparison:
    """What two clusters told one client; what differs and is not listed is a failure."""

    def __init__(self, client: str) -> None:
        self._listed = Listed(client)
        self._found: list[Any] = []
        self.kinds: set[str] = set()
        self.cases = 0

    def add(self, kind: str, case: str, differences: dict[str, Any]) -> None:
        self.kinds.add(kind)
        self.cases += 1
        for path, values in differences.items():
            if not self._listed.allows(kind, case, path):
                self._found.append((kind, case, path, values))

    def check(self) -> None:
        assert not self._found, "\n".join(map(str, self._found))
        assert not self._listed.stale()


def _fits(entry: dict[str, str], name: str, value: str) -> bool:
    return re.fullmatch(entry.get(name, ".*"), value) is not None
