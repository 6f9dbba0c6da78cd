"""Decodes the parts of an answer that mapping reads; the rest passes as it is.

Other values are msgspec.Raw, which encoded() puts back as they are. To find where one ends takes a
twentieth of the time that decoding it would.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from karmada_vc_agent.kube.codec import shallow_parts
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.restore import WHOLE, Parts, restores_texts

_MAP = msgspec.json.Decoder(dict[str, Raw])
_RAWS = msgspec.json.Decoder(list[Raw] | None)
_ANY = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_LONG = ("items", "rows")
"""What lists, and Tables, are long of."""
_OBJECT = "object"
_ERROR, _TABLE = Raw(b'"ERROR"'), Raw(b'"Table"')
_OF_TABLES = b'"meta.k8s.io/'
"""How the apiVersion of Tables begins: there may be other kinds of this name."""

LEVELS = 200
"""What is deeper is not read. Kinds of Kubernetes have less than 60, decoders read 900."""

Content = bytes | Raw
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class TooDeepError(ValueError):
    """What nests deeper than can be read, or than may be shown."""


class PartialDecoder:
    """Decodes answers about one kind, and encodes what mapping made of them; made for one request.

    reach: what is looked at in its objects; None: all of it. Raises ValueError for what is no JSON,
    or no map; TooDeepError.
    """

    def __init__(self, reach: Parts | None = None) -> None:
        self._reach = reach
        self._mark = b""

    def answer(self, content: Content) -> Object:
        """Decode a list, a Table, or one object."""
        return _read(self._answer, _read(_MAP.decode, content))

    def event(self, line: Content) -> Object:
        """Decode an event of a watch."""
        return _read(self._event, line)

    def parts(self, content: Content) -> tuple[Object, str, list[Raw]]:
        """Return a list without its entries, the field of these, and them for some()."""
        return _read(_split, _read(_MAP.decode, content))

    def some(self, entries: Iterable[Content], field: str) -> list[Object]:
        """Decode some entries of a list or of a Table."""
        decode = self._row if field == "rows" else self._object
        return [_read(decode, _read(_MAP.decode, entry)) for entry in entries]

    def encoded(self, mapped: Any) -> bytes:
        """Return the JSON of what was decoded, or of a part of it.

        Raises TooDeepError if anything nested too deep is in it.
        """
        content = _ENCODER.encode(mapped)
        if self._mark and self._mark in content:
            raise TooDeepError(f"an object nests deeper than {LEVELS} levels")
        return content

    def shallow_parts(self, content: bytes) -> Iterator[bytes]:
        """Yield an answer without what nests too deep, of which only neighbours see the rest."""
        # The mark is in no other content, and in none that was encoded before.
        self._mark = b'"%b"' % hashlib.sha256(content).hexdigest().encode()
        return shallow_parts(content, LEVELS, self._mark)

    def _event(self, line: Content) -> Object:
        obj: Object = _MAP.decode(line)
        is_error = obj.get("type") == _ERROR
        for key, raw in obj.items():
            if key == _OBJECT and not is_error and _begins(raw, b"{"):
                inner: Object = _MAP.decode(raw)
                # Fields of tenants may be called rows, or items, too.
                obj[key] = self._answer(inner) if _is_table(inner) else self._object(inner)
            else:
                obj[key] = _ANY.decode(raw)
        return obj

    def _answer(self, raw: Object) -> Object:
        if not any(key in raw for key in _LONG):
            return self._object(raw)
        envelope, field, entries = _split(raw)
        return {**envelope, field: self.some(entries, field)}

    def _row(self, row: Object) -> Object:
        for key, raw in row.items():
            if key == _OBJECT and _begins(raw, b"{"):
                row[key] = self._object(_MAP.decode(raw))
            else:
                row[key] = _ANY.decode(raw)
        return row

    def _object(self, raw: Object) -> Object:
        """Decode, in place, what is looked at."""
        reach = self._reach
        if reach is not None:
            _decode_in(raw, reach)
            metadata = raw.get("metadata")
            if not isinstance(metadata, dict) or not restores_texts(metadata.get("annotations")):
                return raw
        for key, value in raw.items():
            if isinstance(value, Raw):
                raw[key] = _ANY.decode(value)
            elif isinstance(value, dict):
                raw[key] = _ANY.decode(_ENCODER.encode(value))
        return raw


def _decode_in(raw: Object, reach: Parts) -> None:
    for key, below in reach.items():
        value = raw.get(key)
        if value is None:
            continue
        if below is WHOLE:
            raw[key] = _ANY.decode(value)
            continue
        try:
            inner = raw[key] = _MAP.decode(value)
        except msgspec.ValidationError:  # it is no map
            raw[key] = _ANY.decode(value)
        else:
            _decode_in(inner, below)


def _split(raw: Object) -> tuple[Object, str, list[Raw]]:
    field = next((each for each in _LONG if each in raw), "")
    if not field:
        raise ValueError("it is no list")
    entries = _RAWS.decode(raw.pop(field))
    envelope = {key: _ANY.decode(value) for key, value in raw.items()}
    return {**envelope, field: []}, field, entries or []


def _is_table(obj: Object) -> bool:
    """Whether an object that is not decoded is a Table."""
    return obj.get("kind") == _TABLE and _begins(obj.get("apiVersion", _TABLE), _OF_TABLES)


def _begins(raw: Raw, text: bytes) -> bool:
    return bytes(memoryview(raw)[: len(text)]) == text


def _read(function: Callable[[_In], _Out], content: _In) -> _Out:
    try:
        return function(content)
    except RecursionError as error:
        raise TooDeepError("it nests too deep") from error
