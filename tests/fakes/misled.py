"""A host that says once that it serves ConfigMaps where it does not."""

from dataclasses import replace

import orjson

from tests.fakes import served
from tests.fakes.world import World


async def mislead(world: World) -> None:
    """Have the agent take it for true."""
    kinds = [
        replace(each, plural="others") if each.kind == "ConfigMap" else each
        for each in world.host.storage.served
    ]
    document = served.discovery("/api", kinds, aggregated=True, stale=frozenset())
    world.host.answer(orjson.dumps(document), path="/api")
    world.host_discovery.expire()
    await world.host_discovery.refresh()
