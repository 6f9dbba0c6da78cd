"""Every difference from Karmada's own agent that is meant, with its reason.

Anything else that differs fails its case, and so does an entry here that no longer occurs.
"""

from e2e.differential.compare import Allowed

ALLOWED: tuple[Allowed, ...] = ()
