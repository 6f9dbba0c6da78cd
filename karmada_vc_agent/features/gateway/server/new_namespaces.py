"""Waits until the agent has set up a namespace that a client created (5.3).

Nobody but the agent has rights in it before. The last that it makes there is what lets the gateway
act for the ServiceAccounts of the namespace, so the gateway asks for that right of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from karmada_vc_agent.kube.access_review import REVIEWS_PATH, self_review
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.objects import Object, dig

SET_UP_S = 5.0
"""How long a client waits at most; it is told of the namespace all the same."""
PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.25
"""Between questions: each pause is twice the last one, up to this."""

Ask = Callable[[str, str, Any], Awaitable[Object]]


class NewNamespaces:
    """Asks the host. ask: creates an object for a virtual cluster at a path."""

    def __init__(self, ask: Ask, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._ask = ask
        self._sleep = sleep

    async def wait(self, cluster: str, host_namespace: str) -> None:
        """Return once it is set up, or it takes too long, or the host cannot be asked."""
        try:
            async with asyncio.timeout(SET_UP_S):
                pause_s = PAUSE_S
                while not await self._is_set_up(cluster, host_namespace):
                    await self._sleep(pause_s)
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        except (KubeError, TimeoutError):
            return

    async def _is_set_up(self, cluster: str, host_namespace: str) -> bool:
        attributes = {
            "verb": "impersonate",
            "resource": "serviceaccounts",
            "namespace": host_namespace,
        }
        answer = await self._ask(cluster, REVIEWS_PATH, self_review(attributes))
        return dig(answer, "status", "allowed") is True
