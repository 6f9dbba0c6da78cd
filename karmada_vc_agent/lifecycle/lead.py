"""Who leads: this process for certain, perhaps, or another one."""

import logging
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Lead:
    """What this process knows of its lead.

    Host objects and Works are written only while it is certain. Leases and status of Clusters
    go on while it is in doubt (the host does not answer: that is what the hub must hear), but
    not once another process was seen to write them.
    """

    def __init__(self, identity: str, is_leading: Callable[[], bool]) -> None:
        self.identity = identity
        self.is_certain = is_leading
        self._rival = ""

    def observe_holder(self, writer: str | None) -> None:
        """Take note of who wrote last; a rival is one that writes while our lead is in doubt."""
        if writer in (None, "", self.identity) or self.is_certain():
            return
        if writer != self._rival:
            _log.warning("Yielding to the other leader", extra={"leader": writer})
        self._rival = str(writer)

    def may_report(self) -> bool:
        """Whether Leases and status of Clusters are ours to write."""
        if self.is_certain():
            self._rival = ""
        return not self._rival
