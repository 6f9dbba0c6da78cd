"""The leadership of this process: certain, in doubt, or lost."""

import logging
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Lead:
    """The leadership of this process.

    Host objects and Works are written only while it is certain. Leases and status of Clusters are
    also written while it is in doubt (the host does not answer, which the hub must learn), but not
    after another process was seen to write them.
    """

    def __init__(self, identity: str, is_leading: Callable[[], bool]) -> None:
        self.identity = identity
        self.is_certain = is_leading
        self._rival = ""

    def observe_holder(self, writer: str | None) -> None:
        """Record who wrote last; another writer while we are in doubt is the new leader."""
        if writer in (None, "", self.identity) or self.is_certain():
            return
        if writer != self._rival:
            _log.warning("Yielding to the other leader", extra={"leader": writer})
        self._rival = str(writer)

    def may_report(self) -> bool:
        """Return True if Leases and status of Clusters are ours to write."""
        if self.is_certain():
            self._rival = ""
        return not self._rival
