"""Two virtual clusters of one test before a lone gateway, with equal names in both."""

import uuid
from typing import Any

import urllib3

from e2e.lab.api import Api
from e2e.lab.lone_gateway import LoneGateway, config_map, pod
from e2e.lab.wait import PERIODIC_S, within
from karmada_vc_agent.access.agent_objects import TokenKind

LETTERS = ("a", "b")


class Pair:
    """Virtual clusters that no other test has; a test calls them "a" and "b".

    Both have the namespaces `edge`, with Pod `nginx` and ConfigMap `settings`, and `shop`, empty;
    and one node. In both may be user `alice` of group `dev`, in "a" also `root`.
    """

    def __init__(self, gateway: LoneGateway) -> None:
        self.gateway = gateway
        self.id = uuid.uuid4().hex[:6]
        self.names = {letter: f"{letter}-{self.id}" for letter in LETTERS}
        gateway.add(*self.names.values())
        for letter in LETTERS:
            edge = self.space("edge", letter)
            self.host.create(pod(edge, "nginx", self.node(letter)))
            self.host.create(config_map(edge, "settings", owner=letter))
        gateway.allow_to_impersonate(self.names["a"], ["alice", "root"], ["system:masters", "dev"])
        gateway.allow_to_impersonate(self.names["b"], ["alice"], ["dev"])
        within(PERIODIC_S, self._assert_impersonators_are_accepted)

    def _assert_impersonators_are_accepted(self) -> None:
        for letter in LETTERS:
            answer = self.ask("/version", letter, kind="impersonator", Impersonate_User="alice")
            assert answer.status == 200

    @property
    def host(self) -> Api:
        """The API server, with all rights."""
        return self.gateway.host

    def space(self, virtual: str, letter: str = "a") -> str:
        """Return the name of a namespace on the host."""
        return f"{virtual}-v-{self.names[letter]}"

    def node(self, letter: str = "a") -> str:
        """Return the name of the node."""
        return f"node-{self.names[letter]}"

    def token(self, letter: str, kind: TokenKind) -> str:
        """Return a token."""
        return self.gateway.tokens[self.names[letter], kind]

    def claim(self, letter: str, virtual: str) -> str:
        """Make a claimed namespace; return its name on the host."""
        return self.gateway.claim(self.names[letter], virtual)

    def ask(
        self,
        path: str,
        letter: str = "a",
        method: str = "GET",
        *,
        body: Any = None,
        token: str | None = None,
        kind: TokenKind = "access",
        **headers: str,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request; see LoneGateway.ask."""
        cluster = self.names[letter]
        return self.gateway.ask(path, cluster, method, body=body, token=token, kind=kind, **headers)

    def kubectl(self, letter: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """Run kubectl against a virtual cluster; return what it writes."""
        return self.gateway.kubectl(self.names[letter], *arguments, stdin=stdin, fails=fails)

    def audit(self) -> list[Any]:
        """Return the lines of the audit of these two."""
        own = self.names.values()
        return [line for line in self.gateway.audit() if line["vc"] in own]
