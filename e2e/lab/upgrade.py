"""An earlier version of this project beside the present one, and what may not happen in between."""

import os
import subprocess
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.lab.agent import ROOT, Agent
from e2e.lab.api import Api, ApiError
from e2e.lab.gateway import Gateway
from e2e.lab.joining import Joining
from e2e.lab.lab import FAST, QUICK_LEASE, Lab
from e2e.lab.step import Step
from e2e.lab.wait import PERIODIC_S, within

FROM = "UPGRADE_FROM"
"""Environment variable: the commit or tag of the earlier version. Default: the commit before."""
REFUSED = "422"
_PROBE_S = 0.02


def earlier_tree(directory: Path) -> Path:
    """Clone the earlier version into a directory; return it."""
    tree = directory / "earlier"
    commit = _git("rev-parse", "--verify", f"{os.environ.get(FROM) or 'HEAD^'}^{{commit}}")
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, tree], check=True)
    subprocess.run(["git", "-C", tree, "checkout", "--quiet", commit], check=True)
    return tree


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Site:
    """A host whose agent is installed by `join` of one version, and replaced by another's."""

    def __init__(self, lab: Lab, joining: Joining, gateway: Gateway | None = None) -> None:
        self._lab = lab
        self._gateway = gateway
        self._joining = joining
        self._started = 0
        self.agent: Agent | None = None

    def join(self, tree: Path) -> list[str]:
        """Run `join` of a version as the administrator; return its lines."""
        self._joining.source = tree
        return self._joining.as_administrator()

    def killed_join(self, at: Step) -> None:
        """Run the present `join` until it is killed at a step."""
        self._joining.source, self._joining.dies_at = ROOT, at
        done = self._joining.apply()
        self._joining.dies_at = None
        assert done.returncode == -9, f"it never reached {at}: {done.stdout}{done.stderr}"

    def roll_out(self, tree: Path) -> Agent:
        """Replace the agent as a Deployment does: the new one runs before the old one ends."""
        before, flags = self.agent, (*FAST, *QUICK_LEASE)
        self._started += 1
        self.agent = self._joining.installed(f"installed-{self._started}", *flags, source=tree)
        self.agent.start()
        if before is not None:
            self._lab.wait_says(self.agent, "Standing by")
            before.terminate()
        self._lab.wait_says(self.agent, "INFO    Leading ")
        self._lab.wait_serving(self.agent)
        if self._gateway is not None:
            self._gateway.stop()
            self._gateway.start(self.agent, tree)
        return self.agent


class Forbidden:
    """Tries again and again, as a node, what policies deny; it has to be denied each time."""

    def __init__(self, host: Api, node: str, label: str) -> None:
        self._as_node = host.acting_as(f"system:node:{node}", "system:nodes")
        self._path = f"/api/v1/nodes/{node}?dryRun=All"
        self._patch = {"metadata": {"labels": {label: "another-group"}}}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.outcomes: Counter[str] = Counter()

    def __enter__(self) -> Self:
        within(PERIODIC_S, self._is_refused)  # an API server enforces a new policy some time later
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(_PROBE_S):
            self.outcomes[self._attempted()] += 1

    def _is_refused(self) -> None:
        outcome = self._attempted()
        assert outcome == REFUSED, outcome

    def _attempted(self) -> str:
        try:
            self._as_node.patch(self._path, self._patch)
        except ApiError as error:
            return str(error.code)
        return "done"
