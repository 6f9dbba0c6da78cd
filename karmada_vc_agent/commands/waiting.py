"""Wait with a time limit, and say what for if it takes more than a moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

SAY_AFTER_S = 1.0


@asynccontextmanager
async def waiting(what: str, within_s: float) -> AsyncIterator[None]:
    """Print on stderr what is awaited, if this takes long. Raises TimeoutError after `within_s`."""
    text = f"waiting up to {within_s:.0f} s for {what}"
    timer = asyncio.get_running_loop().call_later(SAY_AFTER_S, click.echo, text, None, True, True)
    try:
        async with asyncio.timeout(within_s):
            yield
    finally:
        timer.cancel()
