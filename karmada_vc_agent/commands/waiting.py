"""Wait no longer than so long, and say what for where it takes more than a moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

SAY_AFTER_S = 1.0


@asynccontextmanager
async def waiting(what: str, within_s: float) -> AsyncIterator[None]:
    """Say on stderr what is waited for, if this lasts. Raises TimeoutError at its end."""
    text = f"waiting up to {within_s:.0f} s for {what}"
    timer = asyncio.get_running_loop().call_later(SAY_AFTER_S, click.echo, text, None, True, True)
    try:
        async with asyncio.timeout(within_s):
            yield
    finally:
        timer.cancel()
