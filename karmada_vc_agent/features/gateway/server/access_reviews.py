"""Whether a caller may do what the gateway is to do for it by its own rights (G-24)."""

import time
from collections.abc import Callable

from cachetools import TTLCache

from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.mapping.exchange import Attributes
from karmada_vc_agent.features.gateway.server.authentication import Ask
from karmada_vc_agent.features.gateway.server.statuses import RefusalError
from karmada_vc_agent.kube.access_review import verdict
from karmada_vc_agent.kube.bearer_review import ACCESS_REVIEWS_PATH
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.domain import DOMAIN
from karmada_vc_agent.model.objects import Object

ALLOWED_FOR_S, DENIED_FOR_S = 10.0, 5.0
KEPT = 1024
"""Answers that are remembered for each virtual cluster."""

_Question = tuple[str, tuple[str, ...], str, Attributes]


class AccessReviews:
    """SubjectAccessReviews for one virtual cluster. ask: creates an object at a path."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._allowed: TTLCache[_Question, None] = TTLCache(KEPT, ALLOWED_FOR_S, timer=clock)
        self._denied: TTLCache[_Question, None] = TTLCache(KEPT, DENIED_FOR_S, timer=clock)

    async def check(self, who: Caller, what: Attributes, anchor: str) -> None:
        """Return if the host allows it in the anchor. Raises RefusalError: 403, 503."""
        question = (who.host_user, who.host_groups, anchor, what)
        if question in self._allowed:
            return
        if question in self._denied:
            raise denied(who, what)
        try:
            answer = verdict(await self._ask(ACCESS_REVIEWS_PATH, _review(who, what, anchor)))
        except KubeError as error:
            text = "the API server of the cluster cannot review access"
            raise RefusalError(503, text, counted="host-away") from error
        if answer.get("allowed") is True:
            self._allowed[question] = None
            return
        self._denied[question] = None
        raise denied(who, what)


def denied(who: Caller, what: Attributes) -> RefusalError:
    """Return the 403 of an API server, with the names that the caller knows."""
    group = "" if what.group == DOMAIN else what.group  # namespaces, as clients name them
    resource = f"{what.resource}/{what.subresource}" if what.subresource else what.resource
    plural = f"{what.resource}.{group}" if group else what.resource
    named = f'{plural} "{what.name}"' if what.name else plural
    text = (
        f'{named} is forbidden: User "{who.user}" cannot {what.verb} resource "{resource}" in API '
        f'group "{group}" at the cluster scope'
    )
    details = {"kind": what.resource}
    details |= {"group": group} if group else {}
    details |= {"name": what.name} if what.name else {}
    return RefusalError(403, text, details=details, counted="denied")


def _review(who: Caller, what: Attributes, anchor: str) -> Object:
    attributes = {
        "verb": what.verb,
        "group": what.group,
        "version": what.version,
        "resource": what.resource,
        "subresource": what.subresource,
        "name": what.name,
        "namespace": anchor,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": who.host_user,
            "groups": list(who.host_groups),
            "resourceAttributes": attributes,
        },
    }
