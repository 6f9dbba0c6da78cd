"""karmada-vc-agent that is killed at one step of what it writes: `python -m e2e.lab.dying run ...`.

Whatever the process had in mind beyond that step never happens.
"""

import os
import re
import signal
from pathlib import Path
from typing import Any

import msgspec

from e2e.lab.step import VARIABLE, Step
from karmada_vc_agent import cli
from karmada_vc_agent.features.checkpoint import entries
from karmada_vc_agent.kube.client import ApiClient

FEW = 8
"""Works in one part of the checkpoint, so that few Works are split."""


class _Steps:
    def __init__(self, last: Step) -> None:
        self._last = last
        self._seen = 0

    def is_last(self, request: Any, sent: bytes | None) -> bool:
        """Count a request; return whether it is the one."""
        last = self._last
        content = (sent or b"").decode(errors="replace")
        is_like = (
            request.method in last.methods.split()
            and re.search(last.path, request.path)
            and re.search(last.body, content)
            and Path(last.armed).exists()
        )
        self._seen += bool(is_like)
        return bool(is_like) and self._seen == last.nth


def _die_at(step: Step) -> None:
    steps, exchange = _Steps(step), ApiClient._exchange  # noqa: SLF001 - all requests pass there

    async def dying(client: ApiClient, lane: Any, request: Any, content: Any) -> Any:
        is_last = steps.is_last(request, content)
        if is_last and step.is_before:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return await exchange(client, lane, request, content)
        finally:
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)

    setattr(ApiClient, "_exchange", dying)  # noqa: B010 - its type is generic


if __name__ == "__main__":
    entries.WORKS_A_PART = FEW
    _die_at(msgspec.json.decode(os.environ[VARIABLE], type=Step))
    cli.main()
