"""What becomes of a fault of ours that one manifest or one Work brought up.

It is told where its tenant looks, in words that name nothing of the host, and its traceback
stands in the log once. Whoever calls goes on with the others.
"""

import logging
from collections import OrderedDict
from types import TracebackType
from typing import Self

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.objects import Object, key_of

_log = logging.getLogger(__name__)

_REMEMBERED = 1000


class Bugs:
    """Remembers which faults were logged."""

    def __init__(self) -> None:
        self._logged: OrderedDict[tuple[str, str], None] = OrderedDict()

    def note(self, where: str, error: Exception) -> str:
        """Log a fault once; return what to tell the tenant.

        where: what it was brought up by, for the log: the Work, and which of its manifests.
        """
        if (where, repr(error)) not in self._logged:
            self._logged[where, repr(error)] = None
            if len(self._logged) > _REMEMBERED:
                self._logged.popitem(last=False)
            _log.error("Failing at a manifest", exc_info=error, extra={"where": where})
        return f"internal error ({type(error).__name__}): the log of the agent tells more"

    def guard(self, work: str, manifest: Object) -> "Guard":
        """Return what ends a fault of ours at one manifest: `with bugs.guard(…) as guard:`."""
        return Guard(self, work, manifest)


class Guard:
    """Lets pass what a server says and what is to be tried again; problem: what it ended, or ""."""

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
