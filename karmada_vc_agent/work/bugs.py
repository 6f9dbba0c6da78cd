"""Bugs of the agent that one manifest or one Work triggers.

The tenant gets a message that names nothing of the host; the traceback is logged once. The caller
continues with the others.
"""

import logging
from types import TracebackType
from typing import Self

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.model.objects import Object, key_of

_log = logging.getLogger(__name__)

_REMEMBERED = 1000


class Bugs:
    """Remembers which bugs were logged."""

    def __init__(self) -> None:
        self._once = LogOnce(_log, _REMEMBERED)

    def note(self, where: str, error: Exception) -> str:
        """Log a bug once; return the message for the tenant.

        where: what triggered it, for the log: the Work, and which of its manifests.
        """
        self._once.bug("Failed to handle a manifest", error, about=where, where=where)
        return f"internal error ({type(error).__name__}): see the log of the agent"

    def guard(self, work: str, manifest: Object) -> "_Guard":
        """Return a context that catches bugs at one manifest: `with bugs.guard(…) as guard:`."""
        return _Guard(self, work, manifest)


class _Guard:
    """Lets errors of servers and retries pass; problem: the bug that it caught, or ""."""

    def __init__(self, bugs: Bugs, work: str, manifest: Object) -> None:
        self.problem = ""
        self._bugs = bugs
        self._work = work
        self._manifest = manifest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, KubeError | RetryError):
            return False
        self.problem = self._bugs.note(f"{self._work} {key_of(self._manifest)}", error)
        return True
