"""Bodies in protobuf, and answers of which only parts are decoded."""

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache, partial
from importlib import resources
from typing import Any, TypeVar

import msgspec
import orjson
from msgspec import Raw

from karmada_vc_agent.features.gateway.mapping.refusals import (
    RefusalError,
    bad_request,
    unsupported_body,
)
from karmada_vc_agent.kube.codec import cut_deep, shallow_parts
from karmada_vc_agent.model.objects import Object, may_be_deeper_than
from karmada_vc_agent.translation.restore import WHOLE, Parts, restores_texts

_MAGIC = b"k8s\x00"
_OPTIONS = "DeleteOptions"
"""Sent in the version of whatever is deleted."""
_VARINT, _BYTES = 0, 2
_VARINT_BYTES, _MORE = 10, 0x80
_DEPTH_MAX = 64
_SIGN, _RANGE = 1 << 63, 1 << 64

Wire = dict[int, list[Any]]
"""number -> what it has: integers or bytes."""


def _malformed(why: str) -> RefusalError:
    return bad_request(f"the body is not valid protobuf: {why}")


class _Fields(msgspec.Struct):
    kinds: dict[str, str]
    messages: dict[str, dict[int, tuple[str, ...]]]


@cache
def _fields() -> _Fields:
    text = resources.files(__package__).joinpath("protobuf_fields.json").read_bytes()
    return msgspec.json.decode(text, type=_Fields)


def decode_protobuf(body: bytes) -> Object:
    """Return an object as in JSON. Raises RefusalError: 400; 415 for what is not listed."""
    if not body.startswith(_MAGIC):
        raise _malformed("it does not begin as objects of Kubernetes do")
    unknown = _wire(body[len(_MAGIC) :], 4)
    if any(_one(unknown, number, b"") for number in (3, 4)):
        raise unsupported_body("its content is encoded once more")
    head = _wire(_one(unknown, 1, b""), 2)
    api_version, kind = _string(_one(head, 1, b"")), _string(_one(head, 2, b""))
    message = _fields().kinds.get(kind if kind == _OPTIONS else f"{api_version}/{kind}")
    if message is None:
        raise unsupported_body(f"{kind} in {api_version} is not listed in protobuf")
    return {"apiVersion": api_version, "kind": kind, **_message(_one(unknown, 2, b""), message, 0)}


def _message(data: bytes, name: str, depth: int) -> Object:
    """Return a message as JSON. depth: how many messages are around it."""
    if depth > _DEPTH_MAX:
        raise _malformed("it is nested too deeply")
    fields = _fields().messages[name]
    obj: Object = {}
    for number, values in _wire(data).items():
        if number not in fields:
            raise unsupported_body(f"field {number} of {name.rpartition('.')[2]} is not listed")
        field, code, *flags = fields[number]
        value = _field(values, code, depth)
        if not field:
            obj.update(value)
        elif value is not None and not (flags and not value):
            obj[field] = value
    return obj


def _field(values: list[Any], code: str, depth: int) -> Any:
    form, inner = code[0], code[1:]
    if form == _LIST:
        return [_value(each, inner, depth) for each in values]
    if form == _MAP_FORM:
        entries = [_wire(each, 2) for each in values]
        # Of strings and messages; no map has numbers.
        return {
            _string(_one(each, 1, b"")): _field(each.get(2, [b""]), inner, depth)
            for each in entries
        }
    if len(values) > 1:
        raise _malformed("a field that is no list is there twice")
    return _value(values[0], code, depth)


def _value(data: Any, code: str, depth: int) -> Any:
    if isinstance(data, int) is not (code in _NUMBERS):
        raise _malformed("a field has another type")
    if decode := _NUMBERS.get(code) or _TEXTS.get(code):
        return decode(data)
    if code[0] == _WRAPPED:
        return [_value(each, code[1:], depth) for each in _wire(data, 1).get(1, ())]
    return _message(data, code, depth + 1)


def _signed(number: int) -> int:
    return number - _RANGE if number >= _SIGN else number


def _string(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _malformed("a text is not UTF-8") from error


def _json(data: bytes) -> Any:
    raw = _one(_wire(data, 1), 1, b"")
    try:
        return orjson.loads(raw) if raw else None
    except ValueError as error:
        raise _malformed("a part that is JSON is not valid") from error


def _quantity(data: bytes) -> str:
    return _string(_one(_wire(data, 1), 1, b"")) or "0"


def _int_or_string(data: bytes) -> int | str:
    wire = _wire(data, 3)
    return _string(_one(wire, 3, b"")) if _one(wire, 1, 0) else _signed(_one(wire, 2, 0))


def _time(precision: str, data: bytes) -> str | None:
    """Return a time as Kubernetes writes it; None: none at all."""
    wire = _wire(data, 2)
    seconds, nanos = (_signed(_one(wire, number, 0)) for number in (1, 2))
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise _malformed("a time is out of range") from error
    return f"{moment.isoformat(timespec=precision)}Z" if wire else None


_LIST, _MAP_FORM, _WRAPPED = "[", "{", "("
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC, written with a Z
_NUMBERS: Mapping[str, Callable[[Any], Any]] = {"bool": bool, "int": _signed}
_TEXTS: Mapping[str, Callable[[Any], Any]] = {
    "string": _string,
    "bytes": lambda data: b64encode(data).decode(),
    "json": _json,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "time": partial(_time, "seconds"),
    "micro-time": partial(_time, "microseconds"),
}


def _wire(data: Any, most: int | None = None) -> Wire:
    """Return the values of each number. most: the largest read here. Raises RefusalError."""
    if not isinstance(data, bytes):
        raise _malformed("a message has another type")
    values: Wire = {}
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        content, wire = b"", key & 7
        if wire not in (_VARINT, _BYTES):
            raise _malformed("it has a type that Kubernetes does not use")
        number, at = _varint(data, at)
        if wire == _BYTES:
            if number > end - at:
                raise _malformed("it ends too early")
            content, at = data[at : at + number], at + number
        values.setdefault(key >> 3, []).append(number if wire == _VARINT else content)
    if most is not None and not values.keys() <= set(range(1, most + 1)):
        raise unsupported_body("a part of it has a field that is not listed")
    return values


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(data[at : at + _VARINT_BYTES]):
        number |= (byte & ~_MORE) << (7 * place)
        if not byte & _MORE:
            if number >= _RANGE:
                break
            return number, at + place + 1
    raise _malformed("a number does not end")


def _one(wire: Wire, number: int, default: Any) -> Any:
    values = wire.get(number, [default])
    if len(values) > 1 or type(values[0]) is not type(default):
        raise _malformed("a field is there twice, or has another type")
    return values[0]


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
"""What is deeper is not shown. Kinds of Kubernetes have less than 60."""
DECODED_LEVELS = 900
"""What is deeper is not decoded: Python 3.11 cannot, and of newer ones our own functions cannot."""

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
        return _read(self._event, line)

    def encoded(self, mapped: Any) -> bytes:
        """Return the JSON of what was decoded, or a part. Raises TooDeepError."""
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
                version = inner.get("apiVersion", _TABLE)
                is_table = inner.get("kind") == _TABLE and _begins(version, _OF_TABLES)
                obj[key] = self._answer(inner) if is_table else self._object(inner)
            else:
                obj[key] = _any(raw)
        return obj

    def _answer(self, raw: Object) -> Object:
        field = next((each for each in _LONG if each in raw), None)
        if field is None:
            return self._object(raw)
        entries = _RAWS.decode(raw.pop(field)) or ()
        envelope = {key: _any(value) for key, value in raw.items()}
        decode = self._row if field == "rows" else self._object
        return {**envelope, field: [_read(decode, _read(_MAP.decode, entry)) for entry in entries]}

    def _row(self, row: Object) -> Object:
        for key, raw in row.items():
            if key == _OBJECT and _begins(raw, b"{"):
                row[key] = self._object(_MAP.decode(raw))
            else:
                row[key] = _any(raw)
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
                raw[key] = _any(value)
            elif isinstance(value, dict):
                raw[key] = _any(_ENCODER.encode(value))
        return raw


def _decode_in(raw: Object, reach: Parts) -> None:
    for key, below in reach.items():
        value = raw.get(key)
        if value is None:
            continue
        if below is WHOLE:
            raw[key] = _any(value)
            continue
        try:
            inner = raw[key] = _MAP.decode(value)
        except msgspec.ValidationError:  # it is no map
            raw[key] = _any(value)
        else:
            _decode_in(inner, below)


def _any(raw: Content) -> Any:
    """Decode a part. Raises RecursionError for what nests deeper than DECODED_LEVELS."""
    content = bytes(raw)
    is_deep = may_be_deeper_than(DECODED_LEVELS, content)
    if is_deep and cut_deep(content, DECODED_LEVELS) != content:
        raise RecursionError
    return _ANY.decode(content)


def _begins(raw: Raw, text: bytes) -> bool:
    return bytes(memoryview(raw)[: len(text)]) == text


def _read(function: Callable[[_In], _Out], content: _In) -> _Out:
    try:
        return function(content)
    except RecursionError as error:
        raise TooDeepError("it nests too deep") from error
