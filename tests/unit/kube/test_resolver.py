"""Resolver: one thread for each name, whatever the name server does."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from karmada_vc_agent.kube.transport import NAMES_AT_ONCE, Resolver

TIMEOUT_S = 5.0
PATIENT_S = 120.0
"""However late a busy machine runs a thread."""


class Names:
    """A name server that does not answer for names of a hub until it is released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released = threading.Event()

    def __call__(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        if host.startswith("hub"):
            self.released.wait()
            raise OSError("Temporary failure in name resolution")
        return [(2, 1, 6, "", ("192.0.2.1", port))]


@pytest.fixture
def names() -> Iterator[Names]:
    made = Names()
    yield made
    made.released.set()


async def test_many_requests_for_a_dead_name_hold_one_thread(names: Names) -> None:
    resolver = Resolver(TIMEOUT_S, names)
    asking = [asyncio.ensure_future(resolver.resolve("hub", 443)) for _ in range(100)]
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert {str(error) for error in results} == {"hub was not resolved within 5 s"}
    with pytest.raises(OSError, match="not resolved within"):
        await resolver.resolve("hub", 443)
    assert names.asked == ["hub"]


async def test_a_dead_name_holds_up_neither_others_nor_the_threads_of_the_loop(
    names: Names,
) -> None:
    resolver = Resolver(PATIENT_S, names)
    dead = [asyncio.ensure_future(resolver.resolve(f"hub-{n}")) for n in range(NAMES_AT_ONCE - 1)]
    await asyncio.sleep(0)
    found = await resolver.resolve("host", 6443)
    assert [(each["hostname"], each["host"], each["port"]) for each in found] == [
        ("host", "192.0.2.1", 6443)
    ]
    assert await asyncio.to_thread(lambda: "runs") == "runs"
    assert not any(each.done() for each in dead)
    names.released.set()
    await asyncio.gather(*dead, return_exceptions=True)


async def test_too_many_dead_names_fail_at_once(names: Names) -> None:
    resolver = Resolver(TIMEOUT_S, names)
    dead = [asyncio.ensure_future(resolver.resolve(f"hub-{n}")) for n in range(NAMES_AT_ONCE)]
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="other names are in progress"):
        await resolver.resolve("host")
    await asyncio.gather(*dead, return_exceptions=True)


async def test_failure_of_a_name_is_raised_and_the_next_request_asks_again(names: Names) -> None:
    resolver = Resolver(TIMEOUT_S, names)
    names.released.set()
    for _ in range(2):
        with pytest.raises(OSError, match="Temporary failure"):
            await resolver.resolve("hub")
    assert names.asked == ["hub", "hub"]
