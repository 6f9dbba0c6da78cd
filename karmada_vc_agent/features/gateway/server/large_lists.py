"""Lists that are too large to be decoded at once, some items at a time; others get their turn.

A list of 5,000 pods is 20 MB.
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
from msgspec import Raw

from karmada_vc_agent.features.gateway.mapping.sieves import Sieve
from karmada_vc_agent.features.gateway.server.turns import Turns
from karmada_vc_agent.model.objects import Object

PART_ITEMS = 50
PART_BYTES = 256 * 1024

MapList = Callable[[Object], Awaitable[Object]]
"""Maps a list that has some of the items."""


async def mapped_in_parts(
    sieve: Sieve, split: tuple[Object, str, list[Raw]], map_list: MapList, turns: Turns
) -> AsyncIterator[bytes]:
    """Yield the JSON of a mapped list. split: what Sieve.parts() made of it.

    Raises ValueError where it cannot be read as one.
    """
    envelope, field, entries = split
    await turns.rest()
    opening = await map_list(_copied(envelope))
    opening.pop(field, None)
    # What is mapped with the items is of no item: names of the kind and of the columns, versions.
    buffer = bytearray(orjson.dumps(opening)[:-1])
    buffer += b"," if len(buffer) > 1 else b""
    buffer += b'"' + field.encode() + b'":['
    comma = b""
    for start in range(0, len(entries), PART_ITEMS):
        some = sieve.some(entries[start : start + PART_ITEMS], field)
        mapped = await map_list({**_copied(envelope), field: some})
        if shown := mapped.get(field):
            buffer += comma + sieve.encoded(shown)[1:-1]
            comma = b","
        if len(buffer) >= PART_BYTES:
            yield bytes(buffer)
            buffer.clear()
        await turns.rest()
    yield bytes(buffer) + b"]}"


def _copied(envelope: Object) -> Object:
    """Return a copy of what an envelope says, since mapping changes what it is given."""
    copied: Object = orjson.loads(orjson.dumps(envelope))
    return copied
