"""What clients accept and send, and what is requested of the host (G-43)."""

from collections.abc import Iterator

from msgspec import Struct

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_ANY = frozenset({"*/*", "application/*", ""})
_METADATA = ("PartialObjectMetadata", "PartialObjectMetadataList")
_KEPT = ("as", "v", "g", "profile")
"""Parameters of a media type that go to the host."""
YAMLS = frozenset({YAML, "text/yaml", "application/x-yaml"})
_OTHERS_THAT_ARE_JSON = YAMLS | {"text/plain"}
"""Types that an answer in JSON serves as well: JSON is YAML, and legible."""


class _MediaType(Struct, frozen=True):
    """A media type and its parameters."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    def parameter(self, key: str) -> str:
        """Return a parameter, "" if there is none."""
        return next((value for name, value in self.parameters if name == key), "")

    def __str__(self) -> str:
        """Return it as in a header."""
        return ";".join((self.name, *(f"{key}={value}" for key, value in self.parameters)))


def parse(header: str) -> Iterator[_MediaType]:
    """Yield the media types of Accept or Content-Type, without weights."""
    for part in header.split(","):
        name, *rest = (piece.strip() for piece in part.split(";"))
        pairs = (piece.partition("=") for piece in rest)
        yield _MediaType(
            name.lower(),
            tuple((key.strip().lower(), value.strip()) for key, _, value in pairs),
        )


def upstream_accept(accept: str) -> str | None:
    """Return the Accept for the host, JSON only; None: the client takes nothing of that (406)."""
    types: list[str] = []
    for media_type in parse(accept):
        if media_type.name in _ANY or media_type.name in _OTHERS_THAT_ARE_JSON:
            types.append(JSON)
        elif media_type.name == JSON:
            kept = tuple(pair for pair in media_type.parameters if pair[0] in _KEPT and pair[1])
            types.append(str(_MediaType(JSON, kept)))
    return ",".join(dict.fromkeys(types)) or None


def is_for_metadata(accept: str) -> bool:
    """Whether an upstream Accept prefers PartialObjectMetadata or its list."""
    return next(parse(accept)).parameter("as") in _METADATA


def is_for_table(accept: str) -> bool:
    """Whether an upstream Accept prefers a Table."""
    return next(parse(accept)).parameter("as") == "Table"


def without_views(accept: str) -> str:
    """Return an upstream Accept that asks for whole objects, though still for a Table."""
    kept = [
        str(media_type)
        for media_type in parse(accept)
        if media_type.parameter("as") not in _METADATA
    ]
    return ",".join(kept) or JSON


def name_of(content_type: str) -> str:
    """Return the name of the media type of a body, "" if it has none."""
    return next(parse(content_type)).name
