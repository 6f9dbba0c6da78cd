"""JSON that nests deeper than decoders read, made flat: marks stand for the deep parts.

An API server takes 10,000 levels from whoever may write a kind without a schema. Neighbours list
that kind, too: what they are not shown must not keep them from what is theirs.
"""

import hashlib
import re
from itertools import islice

from karmada_vc_agent.kube.salvage import brackets

LEVELS = 200
"""What lies deeper becomes a mark. Kinds of Kubernetes have less than 60, decoders read 900."""
STEP = 2_000
"""Brackets at a time: 3 ms."""
_OPENING = b"[{"


class Flattening:
    """Flattens step by step. deep: is given mark -> what it stands for, instead of what it has."""

    def __init__(self, content: bytes, deep: dict[bytes, bytes]) -> None:
        deep.clear()
        self._content = content
        self._deep = deep
        self._brackets = brackets(content)
        self._mark = hashlib.sha256(content).hexdigest()[:32].encode()  # content has it nowhere
        self._level = self._begin = self._copied = 0
        self._flat = bytearray()

    def step(self) -> bool:
        """Go on for a while; return whether there is more to do."""
        found = list(islice(self._brackets, STEP))
        for at in found:
            if self._content[at] in _OPENING:
                self._level += 1
                if self._level == LEVELS + 1:
                    self._begin = at
            else:
                self._level -= 1
                if self._level == LEVELS:
                    self._cut(at + 1)
        return bool(found)

    def flat(self) -> bytes:
        """Return the flat JSON, once it is all done."""
        return bytes(self._flat + self._content[self._copied :])

    def _cut(self, end: int) -> None:
        mark = b'"%b-%d"' % (self._mark, len(self._deep))
        self._deep[mark] = self._content[self._begin : end]
        self._flat += self._content[self._copied : self._begin] + mark
        self._copied = end


def with_deep_parts(content: bytes, deep: dict[bytes, bytes]) -> bytes:
    """Return JSON with what its marks stand for."""
    if not deep:
        return content
    mark = next(iter(deep)).partition(b"-")[0]
    return re.sub(re.escape(mark) + rb'-\d+"', lambda found: deep[found[0]], content)
