"""What becomes of a fault of ours that one manifest or one Work brought up.

It is told where its tenant looks, in words that name nothing of the host, and its traceback
stands in the log once. Whoever calls goes on with the others.
"""

import logging
from collections import OrderedDict

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
