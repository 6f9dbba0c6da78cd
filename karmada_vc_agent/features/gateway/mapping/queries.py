"""Parses and builds queries; maps selectors in them (G-34)."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct, structs

from karmada_vc_agent.model.well_known import NAMESPACE_NAME_LABEL

_PAIR = re.compile(r"(?:[A-Za-z0-9\-._~!$'()*,;:@/?=\[\]+]|%[0-9A-Fa-f]{2})*")
_FALSE = frozenset({"false", "0"})
_SAFE = ":@~!$'()*,/"

FIELDS_OF_NAMESPACES = ("metadata.namespace", "involvedObject.namespace", "regarding.namespace")
"""Fields of `fieldSelector` with a namespace in any resource."""
NAME_FIELD = "metadata.name"

_FIELD_TERM = re.compile(r"(?P<key>[^=!]*)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)
_LABEL_EQUALITY = re.compile(r"(?P<key>[^\s=!]+)\s*(?P<operator>!=|==|=)\s*(?P<value>\S*)")
_LABEL_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_FIELD_MARK = re.compile(r"\\.|,", re.DOTALL)
"""What is escaped, and the commas that are not."""
_LABEL_MARK = re.compile(r"[(),]")

MapName = Callable[[str], str]


class QueryError(ValueError):
    """A query that cannot be read, or mapped: 400."""


class Query(Struct, frozen=True):
    """Decoded pairs of a query, in order; a parameter may occur more than once."""

    pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Query":
        """Parse a query as received. Raises QueryError."""
        pairs = []
        for pair in text.split("&") if text else ():
            if not _PAIR.fullmatch(pair):
                raise QueryError("the query has characters that must be encoded")
            key, _, value = pair.partition("=")
            if ";" in pair:
                raise QueryError("the query must separate parameters by &")
            pairs.append((_decoded(key), _decoded(value)))
        return cls(tuple(pairs))

    def encoded(self) -> str:
        """Return the query for a request."""
        return "&".join(
            f"{quote(key, safe=_SAFE)}={quote(value, safe=_SAFE)}" for key, value in self.pairs
        )

    def first(self, key: str) -> str | None:
        """Return the first value of a parameter, the one that an API server reads."""
        return next((value for name, value in self.pairs if name == key), None)

    def is_true(self, key: str) -> bool:
        """Whether a parameter counts as true for an API server: anything but false and 0."""
        value = self.first(key)
        return value is not None and value.lower() not in _FALSE

    def with_values(self, **values: str | None) -> "Query":
        """Return the query with other values of parameters; None removes one."""
        kept = tuple(pair for pair in self.pairs if pair[0] not in values)
        new = tuple((key, value) for key, value in values.items() if value is not None)
        return Query(kept + new)

    def changed(self, key: str, change: MapName) -> "Query":
        """Return the query with each value of a parameter changed."""
        pairs = ((name, change(value) if name == key else value) for name, value in self.pairs)
        return structs.replace(self, pairs=tuple(pairs))


def _decoded(text: str) -> str:
    try:
        decoded = unquote_to_bytes(text.replace("+", " ")).decode()
    except UnicodeDecodeError as error:
        raise QueryError("the query is not UTF-8") from error
    if "\x00" in decoded:
        raise QueryError("the query has a zero byte")
    return decoded


# --- selectors --------------------------------------------------------------------------


class FieldTerm(Struct, frozen=True):
    """One term of a fieldSelector; value: without escapes."""

    key: str
    operator: str
    value: str

    def matches(self, value: str) -> bool:
        """Whether a field with this value is selected."""
        return (self.value == value) is (self.operator != "!=")

    def __str__(self) -> str:
        """Return the term as in a query before encoding."""
        value = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.key}{self.operator}{value}"


def field_terms(selector: str) -> list[FieldTerm]:
    """Split a fieldSelector. Raises QueryError."""
    terms = []
    for text in _split_fields(selector):
        match = _FIELD_TERM.fullmatch(text)
        if match is None:
            raise QueryError(f"invalid field selector: {text}")
        value = re.sub(r"\\([\\,=])", r"\1", match["value"])
        terms.append(FieldTerm(match["key"], match["operator"], value))
    return terms


def map_field_selector(selector: str, mappings: Mapping[str, MapName]) -> str:
    """Return a fieldSelector with values mapped; mappings: field -> how. Raises QueryError."""
    mapped = []
    for term in field_terms(selector):
        change = mappings.get(term.key)
        mapped.append(structs.replace(term, value=change(term.value)) if change else term)
    return ",".join(map(str, mapped))


def _split_fields(selector: str) -> Iterator[str]:
    """Split at commas that are not escaped; empty terms are dropped, as by an API server."""
    start = 0
    for mark in _FIELD_MARK.finditer(selector):
        if mark[0] == ",":
            if start < mark.start():
                yield selector[start : mark.start()]
            start = mark.end()
    if start < len(selector):
        yield selector[start:]


def map_label_selector(selector: str, map_namespace: MapName) -> str:
    """Return a labelSelector with the values of `kubernetes.io/metadata.name` mapped.

    Raises QueryError if a term with that key cannot be read.
    """
    if NAMESPACE_NAME_LABEL not in selector:
        return selector
    return ",".join(_label_term(term, map_namespace) for term in _split_labels(selector))


def _split_labels(selector: str) -> Iterator[str]:
    """Split at commas outside of parentheses."""
    depth, start = 0, 0
    for mark in _LABEL_MARK.finditer(selector):
        if mark[0] != ",":
            depth += 1 if mark[0] == "(" else -1
        elif depth == 0:
            yield selector[start : mark.start()]
            start = mark.end()
    yield selector[start:]


def _label_term(term: str, map_namespace: MapName) -> str:
    text = term.strip()
    if NAMESPACE_NAME_LABEL not in text or text.lstrip("!").strip() == NAMESPACE_NAME_LABEL:
        return term
    match: Any = _LABEL_EQUALITY.fullmatch(text)
    if match is not None:
        value = match["value"]
        if match["key"] == NAMESPACE_NAME_LABEL and value:
            value = map_namespace(value)
        return f"{match['key']}{match['operator']}{value}"
    match = _LABEL_SET.fullmatch(text)
    if match is None:
        raise QueryError(f"invalid label selector: {text}")
    values = [value.strip() for value in match["values"].split(",")]
    if match["key"] == NAMESPACE_NAME_LABEL:
        values = [map_namespace(value) if value else value for value in values]
    return f"{match['key']} {match['operator']} ({','.join(values)})"
