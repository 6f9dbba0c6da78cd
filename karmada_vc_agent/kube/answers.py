"""Encoding of request bodies and decoding of responses; any problem is a KubeError."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from karmada_vc_agent.kube import salvage
from karmada_vc_agent.kube.errors import TooLargeError, UnreadableError, UnwritableError
from karmada_vc_agent.kube.permissions import need_of
from karmada_vc_agent.kube.versions import is_of_storage
from karmada_vc_agent.model.objects import Object, dig

ANSWER_BYTES = 64 * 2**20
"""The largest response that is read; etcd stores no object above 1.5 MiB, pages are far smaller."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response."""

    status: int
    content: bytes
    etag: str | None = None
    retry_after: str | None = None


def encoded(body: Any) -> bytes | None:
    """Encode a body as JSON; None and bytes are not changed. Raises UnwritableError."""
    if body is None or isinstance(body, bytes):
        return body
    try:
        return orjson.dumps(body)
    except (TypeError, RecursionError) as error:  # nested too deep, or invalid Unicode
        raise UnwritableError(f"cannot be encoded as JSON: {error}") from error


def decoded(content: bytes) -> Object:
    """Return the JSON object of a response. Raises UnreadableError."""
    try:
        answer, _ = salvage.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"the response is not JSON: {error}") from error
    if not isinstance(answer, dict):
        raise UnreadableError("the response is not a JSON object")
    return answer


def text(answer: Answer) -> bytes:
    """Return the body of a 2xx response."""
    return _success(answer).content


def json_object(answer: Answer) -> Object:
    """Return the JSON object of a 2xx response."""
    return decoded(_success(answer).content)


def decoder_of(path: str, *, or_status: bool = False) -> Callable[[Answer], Object]:
    """Return what decodes the response at a path; an object has its name, a list a version.

    or_status: whether a Status says as much.
    """
    need = need_of("GET", path)
    if need is None or (not need.resource.endswith("/status") and "/" in need.resource):
        return json_object
    if need.name:
        return _named(need.name, or_status=or_status)

    def decode(answer: Answer) -> Object:
        obj = json_object(answer)
        check_version(dig(obj, "metadata", "resourceVersion"))
        return obj

    return decode


def check_version(version: Any) -> None:
    """Raise UnreadableError for the version of what is no list, as of a page."""
    if not isinstance(version, str) or not is_of_storage(version):
        raise UnreadableError("the response is no list: it has no resourceVersion")


def decoder_of_created(obj: Any) -> Callable[[Answer], Object]:
    """Return what decodes the response to a create; reviews and subresources have no name."""
    name = dig(obj, "metadata", "name") if isinstance(obj, dict) else None
    return _named(name) if isinstance(name, str) else json_object


def _named(name: str, *, or_status: bool = False) -> Callable[[Answer], Object]:
    def decode(answer: Answer) -> Object:
        obj = json_object(answer)
        is_meant = dig(obj, "metadata", "name") == name
        if not is_meant and not (or_status and obj.get("kind") == "Status"):
            raise UnreadableError(f"the response is not the object {name!r}")
        return obj

    return decode


def unless_unchanged(answer: Answer) -> tuple[Object, str | None] | None:
    """Return JSON object and ETag of a 2xx response; None for 304."""
    return None if answer.status == 304 else (json_object(answer), answer.etag)


def _success(answer: Answer) -> Answer:
    if not 200 <= answer.status < 300:
        raise UnreadableError(f"unexpected status {answer.status}")
    return answer


async def read(response: aiohttp.ClientResponse, most: int = ANSWER_BYTES) -> Answer:
    """Read a body. Raises TooLargeError if it has more bytes than `most`."""
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > most:
            raise TooLargeError(f"the response is larger than {most >> 20} MiB")
        parts.append(part)
    headers = response.headers
    return Answer(response.status, b"".join(parts), headers.get("ETag"), headers.get("Retry-After"))


async def lines(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """Yield the non-empty lines of a body as they arrive. Raises UnreadableError."""
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = b"".join((*parts, line))
            parts, size = [], 0
            if whole:
                yield whole
        parts.append(rest)
        size += len(rest)
        if size > ANSWER_BYTES:
            raise UnreadableError(f"a line is larger than {ANSWER_BYTES >> 20} MiB")
