"""One message of HTTP/1.1 at a time, over asyncio streams, by the rules of h11."""

import asyncio
from collections.abc import AsyncIterator

import h11

READ_BYTES = 64 * 1024
HEAD_BYTES = 64 * 1024
STREAM_BYTES = 128 * 1024
"""A StreamReader stops reading at twice this much (G-62)."""


_Next = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class MessageStream:
    """Events of h11 to and from one connection; role: h11.SERVER or h11.CLIENT.

    Raises h11.RemoteProtocolError for what is no HTTP, OSError where the connection broke.
    """

    def __init__(
        self,
        role: type[h11.CLIENT] | type[h11.SERVER],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.state = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES)

    async def next_event(self) -> h11.Event | type[h11.PAUSED]:
        """Return the next event of the other side, or PAUSED."""
        while True:
            event = self.state.next_event()
            if event is h11.PAUSED or isinstance(event, h11.Event):
                return event
            self.state.receive_data(await self.read())

    async def read(self) -> bytes:
        """Return what the other side sent, b"" at its end."""
        return await self.reader.read(READ_BYTES)

    def write(self, event: h11.Event) -> None:
        """Write without waiting: for heads, and what is small."""
        data = self.state.send(event)
        if data:
            self.writer.write(data)

    async def send(self, event: h11.Event) -> None:
        """Write, and wait while the other side reads slowly."""
        self.write(event)
        await self.writer.drain()

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body of the message whose head was read, to its end."""
        while True:
            event = await self.next_event()
            if isinstance(event, h11.EndOfMessage):
                return
            if not isinstance(event, h11.Data):
                raise h11.RemoteProtocolError("the connection was closed within a body")
            yield bytes(event.data)

    async def large_parts(self) -> AsyncIterator[bytes]:
        """Yield the body as body() does, but joins chunks that arrive together."""
        while True:
            event: _Next = await self.next_event()
            chunks = []
            while isinstance(event, h11.Data):
                chunks.append(event.data)
                event = self.state.next_event()
            if chunks:
                yield b"".join(chunks)
            if isinstance(event, h11.EndOfMessage):
                return
            if event is not h11.NEED_DATA:
                raise h11.RemoteProtocolError("the connection was closed within a body")

    @property
    def is_done(self) -> bool:
        """Whether both sides have ended their messages, so that others may follow."""
        return self.state.our_state is h11.DONE and self.state.their_state is h11.DONE

    @property
    def has_more(self) -> bool:
        """Whether more was received than belongs to the message."""
        return bool(self.state.trailing_data[0])

    def close(self) -> None:
        """Close the connection; what was written is still sent."""
        self.writer.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()
