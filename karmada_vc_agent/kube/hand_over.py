"""A leader hands the lead over to a standby process that has what the leader lacks.

Two annotations on the Lease: the leader writes that it lacks something (`lacks`) when it renews; a
standby process, which reads the Lease anyway and has it, writes its identity (`offers`). The
leader that sees the offer ends well and releases the Lease, which the others leave to that process
for as long as they would leave it to a holder. While nothing is lacking nothing more is written.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from karmada_vc_agent.model.objects import Object, annotations_of, dig, uid_of


@dataclass(frozen=True, slots=True)
class HandOver:
    """lacks, offers: the annotations.

    is_lacking: whether the leader lacks what it needs, for long enough. may_offer: whether this
    process, standing by, has it for certain. agreed: set once the leader may end.
    """

    lacks: str
    offers: str
    is_lacking: Callable[[], bool]
    may_offer: Callable[[], bool]
    agreed: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, lease: Object, identity: str) -> Object | None:
        """Return the patch by which a standby process offers itself; None for no change."""
        marks = annotations_of(lease)
        is_lacking = marks.get(self.lacks) == dig(lease, "spec", "holderIdentity")
        is_offered = marks.get(self.offers) == identity
        is_desired = is_lacking and self.may_offer()
        if is_offered == is_desired or (is_desired and marks.get(self.offers)):
            return None
        metadata = {"uid": uid_of(lease), "resourceVersion": lease["metadata"]["resourceVersion"]}
        mark = {self.offers: identity if is_desired else None}
        return {"metadata": {**metadata, "annotations": mark}}

    def renewed(self, lease: Object, identity: str) -> dict[str, str]:
        """Return the annotations with which the leader renews; agree to an offer."""
        marks = annotations_of(lease)
        offer = marks.get(self.offers, "")
        left = {key: text for key, text in marks.items() if key not in (self.lacks, self.offers)}
        if not self.is_lacking():
            return left
        if marks.get(self.lacks) == identity and offer not in ("", identity):
            self.agreed.set()
            left[self.offers] = offer
        return {**left, self.lacks: identity}

    def heir(self, lease: Object) -> str:
        """Return the identity that a free Lease is reserved for, "" = the first one."""
        return str(annotations_of(lease).get(self.offers, ""))
