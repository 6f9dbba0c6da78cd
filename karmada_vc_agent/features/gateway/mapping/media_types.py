"""What clients accept and send, and what the host is asked for (G-43)."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_ANY = frozenset({"*/*", "application/*", ""})
_KEPT = ("as", "v", "g", "profile")
"""Parameters of a media type that the host is asked for."""
_OTHERS_THAT_ARE_JSON = frozenset({YAML, "text/yaml", "application/x-yaml", "text/plain"})
"""Types that an answer in JSON serves as well: JSON is YAML, and legible."""


class MediaType(Struct, frozen=True):
    """A media type and its parameters."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    def parameter(self, key: str) -> str:
        """Return a parameter, "" if there is none."""
        return next((value for name, value in self.parameters if name == key), "")

    def __str__(self) -> str:
        """Return it as in a header."""
        return ";".join((self.name, *(f"{key}={value}" for key, value in self.parameters)))


class MediaView(StrEnum):
    """The form of objects that a client asks for."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


def parse(header: str) -> Iterator[MediaType]:
    """Yield the media types of Accept or Content-Type, without weights."""
    for part in header.split(","):
        name, *rest = (piece.strip() for piece in part.split(";"))
        pairs = (piece.partition("=") for piece in rest)
        yield MediaType(
            name.lower(),
            tuple((key.strip().lower(), value.strip()) for key, _, value in pairs),
        )


def upstream_accept(accept: str) -> str | None:
    """Return the Accept for the host, JSON only; None: the client takes nothing of that (406)."""
    wanted: list[str] = []
    for media_type in parse(accept):
        if media_type.name in _ANY or media_type.name in _OTHERS_THAT_ARE_JSON:
            wanted.append(JSON)
        elif media_type.name == JSON:
            kept = tuple(pair for pair in media_type.parameters if pair[0] in _KEPT and pair[1])
            wanted.append(str(MediaType(JSON, kept)))
    return ",".join(dict.fromkeys(wanted)) or None


def is_for_metadata(accept: str) -> bool:
    """Whether an upstream Accept prefers PartialObjectMetadata or its list."""
    first = next(parse(accept)).parameter("as")
    return first in (MediaView.METADATA, MediaView.METADATA_LIST)


def is_for_table(accept: str) -> bool:
    """Whether an upstream Accept prefers a Table."""
    return next(parse(accept)).parameter("as") == MediaView.TABLE


def without_views(accept: str) -> str:
    """Return an upstream Accept that asks for whole objects, though still for a Table."""
    kept = [
        str(media_type)
        for media_type in parse(accept)
        if media_type.parameter("as") not in (MediaView.METADATA, MediaView.METADATA_LIST)
    ]
    return ",".join(kept) or JSON


def is_json(content_type: str) -> bool:
    """Whether a body is JSON; a missing type means it."""
    name = next(parse(content_type)).name
    return name in (JSON, "")


def is_yaml(content_type: str) -> bool:
    """Whether a body is YAML."""
    return next(parse(content_type)).name in (YAML, "text/yaml", "application/x-yaml")


def is_protobuf(content_type: str) -> bool:
    """Whether a body is in the protobuf of Kubernetes."""
    return next(parse(content_type)).name == PROTOBUF
