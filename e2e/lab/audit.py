"""Who wrote what, by the audit logs of API servers.

hack/control-planes up --audit has hub and host write them; a server of a test's own writes one if
it was started `audited` (lone_server.py).
"""

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

LOGS = "AUDIT_LOGS"
"""Environment variable: the directory of the shared planes' logs."""
AGENT = "karmada-vc-agent"
"""How the agent's user agent begins."""
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_PUTS = ("create", "update", "patch")


class Target(NamedTuple):
    """An object, by the plural of its kind."""

    plural: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Written:
    """One write that was answered; dry runs are none.

    credential: what tells two processes of one account apart, "" where nothing does.
    """

    at: datetime
    user: str
    credential: str
    user_agent: str
    verb: str
    path: str
    target: Target
    subresource: str
    code: int

    def __str__(self) -> str:
        about = (self.target.namespace, self.target.name, self.subresource)
        return f"{self.verb} {self.target.plural} {'/'.join(filter(None, about))}"


class AuditLog:
    """The audit log of one API server from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # From the end of the last whole line: the server may be writing one.
        self._offset = path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0
        self._rest = b""
        self._writes: list[Written] = []
        self._watches: set[str] = set()

    def news(self) -> Iterator[Written]:
        """Yield what was written since the last look."""
        for line in self._lines():
            is_write = line["verb"] != "watch" and "dryRun=All" not in line["requestURI"]
            if is_write and line["stage"] == "ResponseComplete":
                yield _written(line)

    def open_watches(self, part: str) -> set[str]:
        """Return the watches of Works that began since the log was opened and go on.

        part: of their URIs, such as `/namespaces/karmada-es-edge-v-branch-a/`.
        """
        for line in self._lines():
            if line["verb"] == "watch" and part in line["requestURI"]:
                change = {"ResponseStarted": self._watches.add}
                change.get(line["stage"], self._watches.discard)(line["auditID"])
        return self._watches

    def _lines(self) -> Iterator[Any]:
        """Yield each line since the last look; the last one may be there in part only."""
        with self._path.open("rb") as log:
            log.seek(self._offset)
            content = log.read()
        self._offset += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        yield from map(json.loads, lines)

    def writes(self) -> list[Written]:
        """Return all that was written, oldest answer first."""
        self._writes.extend(self.news())
        return self._writes

    def credentials(self) -> set[str]:
        """Return by which credentials agents wrote."""
        return {each.credential for each in self.writes() if _is_agents(each)}

    def by(self, credentials: Collection[str], since: datetime | None = None) -> list[Written]:
        """Return what agents asked for with one of these credentials since then."""
        return [
            each
            for each in self.writes()
            if _is_agents(each)
            and each.credential in credentials
            and (since is None or each.at >= since)
        ]


def shared_log(server: str) -> AuditLog:
    """Return the log of hub or host from now on; skip the test where none is kept."""
    if LOGS not in os.environ:
        pytest.skip(f"no audit logs: hack/control-planes up --audit, and {LOGS}")
    return AuditLog(Path(os.environ[LOGS], f"{server}-audit.log"))


class AgentWrites:
    """What agents write in some namespaces of hub or host from now on, without their Leases."""

    def __init__(self, server: str, namespaces: Collection[str]) -> None:
        self._log = shared_log(server)
        self._namespaces = namespaces

    def told(self) -> list[str]:
        """Return each write as `verb plural namespace/name/subresource`."""
        return [
            str(each)
            for each in self._log.writes()
            if _is_agents(each)
            and each.target.namespace in self._namespaces
            and each.target.plural != "leases"
        ]


class WriteCounts:
    """How often each object of the host was written; nothing is known where no log is kept."""

    def __init__(self) -> None:
        logs = os.environ.get(LOGS)
        self._log = AuditLog(Path(logs, "host-audit.log")) if logs else None
        self._counts: Counter[tuple[str, Target]] = Counter()

    @property
    def is_known(self) -> bool:
        return self._log is not None

    def by(self, user: str) -> Counter[Target]:
        """Return how often a user wrote each object with success; deletions do not count."""
        for each in self._log.news() if self._log is not None else ():
            if each.verb in _PUTS and not each.subresource and 200 <= each.code < 300:
                self._counts[each.user, each.target] += 1
        return Counter({target: n for (by, target), n in self._counts.items() if by == user})


def _is_agents(written: Written) -> bool:
    return written.user_agent.startswith(AGENT)


def _written(line: Any) -> Written:
    about, user = line.get("objectRef") or {}, line["user"]
    return Written(
        at=datetime.fromisoformat(line["requestReceivedTimestamp"]),
        user=user.get("username", ""),
        credential=" ".join(user.get("extra", {}).get(_CREDENTIAL, ())),
        user_agent=line.get("userAgent") or "",
        verb=line["verb"],
        path=line["requestURI"],
        target=Target(about.get("resource", ""), about.get("namespace", ""), about.get("name", "")),
        subresource=about.get("subresource", ""),
        code=(line.get("responseStatus") or {}).get("code", 0),
    )
