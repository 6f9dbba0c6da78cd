"""Detects that the time of an API server was reset, as by a restore of etcd from a backup.

A watch from a version that the server no longer has, or does not have again yet, is silent forever,
and the cached state of its objects is outdated. So a reader that sees a version lower than before
reports it here. Then everything is listed again at once, and once more after a pause: until that
second list the server is in doubt, and nothing is deleted based on its answers.
"""

import asyncio
import logging
from collections.abc import Callable

from karmada_vc_agent.kube.versions import is_lower

_log = logging.getLogger(__name__)

SECOND_LIST_S = 10.0


class History:
    """The history of one API server, shared by all of its clients and reflectors."""

    def __init__(self, server: str) -> None:
        self.epoch = 0
        self.went_back = 0
        self.server = server
        self._listed_epochs: dict[object, int] = {}
        self._settled_at_epoch: int | None = None
        self._second_list: asyncio.TimerHandle | None = None
        self._moved = asyncio.Event()
        self._back_listeners: list[Callable[[], None]] = []
        self._settled_listeners: list[Callable[[], None]] = []

    def on_back(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a reset is seen, before anything is listed."""
        self._back_listeners.append(listener)

    def on_settled(self, listener: Callable[[], None]) -> None:
        """Call `listener` after the second list."""
        self._settled_listeners.append(listener)

    @property
    def is_in_doubt(self) -> bool:
        """Return whether time was reset and not everything was listed twice since."""
        return self._second_list is not None or self._settled_at_epoch is not None

    def check(self, before: str, version: str, what: str, epoch: int) -> bool:
        """Compare a version with a later one of the same thing; report it if lower.

        epoch: in which `before` was seen; earlier epochs are no evidence any more.
        """
        is_back = is_lower(version, before) and epoch == self.epoch
        if is_back:
            self.notice(f"{what} was at version {before} and is at {version}")
        return is_back

    def notice(self, evidence: str) -> None:
        """Report that time was reset."""
        is_reported = self._second_list is not None
        self.went_back += not is_reported
        if not is_reported:
            _log.warning(
                "An API server went back in time, as after a restore from a backup; listing "
                "everything again",
                extra={"server": self.server, "reason": evidence},
            )
        if self._second_list is not None:
            self._second_list.cancel()
        loop = asyncio.get_running_loop()
        self._second_list = loop.call_later(SECOND_LIST_S, self._list_again)
        self._settled_at_epoch = None
        if not is_reported:
            for listener in self._back_listeners:
                listener()
            self._move()

    def join(self, member: object) -> None:
        """Count a reflector among those that have to list."""
        self._listed_epochs[member] = self.epoch

    def leave(self, member: object) -> None:
        """Stop counting a reflector."""
        self._listed_epochs.pop(member, None)
        self._settle()

    def listed(self, member: object, epoch: int) -> None:
        """Record that a reflector has listed everything, starting in that epoch."""
        self._listed_epochs[member] = epoch
        self._settle()

    async def wait_new_epoch(self, epoch: int) -> None:
        """Wait until everything has to be listed again."""
        while self.epoch == epoch:
            await self._moved.wait()

    def _list_again(self) -> None:
        self._second_list = None
        self._settled_at_epoch = self.epoch + 1
        self._move()
        self._settle()

    def _move(self) -> None:
        self.epoch += 1
        self._moved.set()
        self._moved = asyncio.Event()

    def _settle(self) -> None:
        target = self._settled_at_epoch
        if target is None or any(each < target for each in self._listed_epochs.values()):
            return
        self._settled_at_epoch = None
        _log.info("Listed everything again", extra={"server": self.server})
        for listener in self._settled_listeners:
            listener()


def doubt_of(*histories: History) -> str:
    """Return which of some servers may have been reset, as text; "" if none."""
    doubtful = (each.server for each in histories if each.is_in_doubt)
    return next(
        (f"{server} went back in time and is being listed again" for server in doubtful), ""
    )
