"""What was written to hub and host, by their audit logs."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from e2e.lab.audit import AuditLog, Written

OURS = "karmada-vc-agent"
THEIRS = "karmada-agent"
BARE = "bench-bare-client"
"""How the user agent of each begins."""


class Sent(NamedTuple):
    """A write that succeeded; server: hub or host."""

    server: str
    write: Written

    @property
    def is_upkeep(self) -> bool:
        """Whether it is a Lease or an access review, written while nothing happens, too."""
        return self.write.target.plural.endswith(("leases", "reviews"))


class Requests:
    """The writes to hub and host from now on."""

    def __init__(self, logs: Path) -> None:
        self._logs = {name: AuditLog(logs / f"{name}-audit.log") for name in ("hub", "host")}

    def skip(self) -> None:
        """Forget what was written so far."""
        self.news("")

    def news(self, who: str) -> list[Sent]:
        """Return what was written since the last look by the one whose user agent begins so."""
        return [
            Sent(server, write)
            for server, log in self._logs.items()
            for write in log.news()
            if write.user_agent.startswith(who) and 200 <= write.code < 300
        ]


def kinds(sent: Iterable[Sent]) -> Counter[str]:
    """Count writes by server, verb and kind."""
    counted: Counter[str] = Counter()
    for server, write in sent:
        words = (server, write.verb, write.target.plural, write.subresource)
        counted[" ".join(filter(None, words))] += 1
    return counted
