"""What goes out as a body and what comes in as one; whatever is wrong with it is a KubeError."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from karmada_vc_agent.kube import salvage
from karmada_vc_agent.kube.errors import CutOffError, UnreadableError, UnwritableError
from karmada_vc_agent.model.objects import Object

ANSWER_BYTES = 64 * 2**20
"""The largest answer that is read; etcd keeps no object above 1.5 MiB, pages are far smaller."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that came whole."""

    status: int
    content: bytes
    etag: str | None = None
    retry_after: str | None = None


def encoded(body: Any) -> bytes | None:
    """Return a body as JSON; None and bytes stay as they are. Raises UnwritableError."""
    if body is None or isinstance(body, bytes):
        return body
    try:
        return orjson.dumps(body)
    except (TypeError, RecursionError) as error:  # nested too deep, or text that is no Unicode
        raise UnwritableError(f"cannot be sent as JSON: {error}") from error


def decoded(content: bytes) -> Object:
    """Return the JSON object of an answer. Raises UnreadableError."""
    try:
        answer, _ = salvage.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"the answer is no JSON: {error}") from error
    if not isinstance(answer, dict):
        raise UnreadableError("the answer is no object")
    return answer


def text(answer: Answer) -> bytes:
    """Return the body of a 2xx answer as it is."""
    return _success(answer).content


def json_object(answer: Answer) -> Object:
    """Return the JSON object of a 2xx answer."""
    return decoded(_success(answer).content)


def unless_unchanged(answer: Answer) -> tuple[Object, str | None] | None:
    """Return JSON object and ETag of a 2xx answer; None for 304."""
    return None if answer.status == 304 else (json_object(answer), answer.etag)


def _success(answer: Answer) -> Answer:
    if not 200 <= answer.status < 300:
        raise UnreadableError(f"it answered {answer.status}, as no API server does")
    return answer


async def read(response: aiohttp.ClientResponse) -> Answer:
    """Read a body. Raises CutOffError where it is larger than an API server's would be."""
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > ANSWER_BYTES:
            raise CutOffError(f"the answer is larger than {ANSWER_BYTES >> 20} MiB")
        parts.append(part)
    headers = response.headers
    return Answer(response.status, b"".join(parts), headers.get("ETag"), headers.get("Retry-After"))


async def lines(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """Yield the lines of a body that are not empty, as they come. Raises UnreadableError."""
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
