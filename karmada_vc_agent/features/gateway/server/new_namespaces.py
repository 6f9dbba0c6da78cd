"""Waits until the agent has set up a namespace that a client created (5.3).

Only the agent has rights in it before. The last that it makes there is what lets the gateway
act for the ServiceAccounts of the namespace, so the gateway asks for that right of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from karmada_vc_agent.features.gateway.server.authentication import Ask
from karmada_vc_agent.kube.access_review import REVIEWS_PATH, self_review
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.objects import dig

SET_UP_S = 5.0
"""How long a client waits at most; the namespace is reported all the same."""
PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.25
"""Between questions: each pause is twice the last one, up to this."""


async def wait_until_set_up(
    ask: Ask, host_namespace: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Return once it is set up, or it takes too long, or the host does not answer.

    ask: creates an object at a path of the host.
    """
    attributes = {
        "verb": "impersonate",
        "resource": "serviceaccounts",
        "namespace": host_namespace,
    }
    with suppress(KubeError, TimeoutError):
        async with asyncio.timeout(SET_UP_S):
            pause_s = PAUSE_S
            while True:
                answer = await ask(REVIEWS_PATH, self_review(attributes))
                if dig(answer, "status", "allowed") is True:
                    return
                await sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
