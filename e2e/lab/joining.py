"""`karmada-vc-agent join` as a story runs it: by an administrator of the hub, or by a token."""

import base64
import re
import secrets
import subprocess
import sys
from pathlib import Path

import yaml

from e2e.lab.access import Kubeconfigs, account_kubeconfig, installed_kubeconfig
from e2e.lab.agent import ROOT, Agent, clean_environment, settings_file
from e2e.lab.api import Api
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.step import Step, program_for
from karmada_vc_agent.install.join_hub import public_key_hash

_BUILT_IN = (
    r"(?:\"\"|\"\*\"|[a-z]+|virtualcluster\.kubeedge\.io|(?:admissionregistration|apiextensions"
    r"|apiregistration|authentication|authorization|certificates|coordination|discovery|events"
    r"|networking|node|rbac\.authorization|resource|scheduling|storage)\.k8s\.io)"
)
RULES_OF_OTHERS = re.compile(
    r"host: ClusterRole \S+ (?:lacks|differs: \.rules: -) "
    rf"(?!.*apiGroups: \[(?:[^\]]*, )?{_BUILT_IN}[\],])"
)
"""`doctor` about rules for CRDs of other stories: added since the join, or removed."""


class Joining:
    """Runs `join` for the settings of one agent."""

    def __init__(self, lab: Lab, *groups: Group) -> None:
        self.lab = lab
        self.agent = lab.new_agent(*groups, flags=FAST)
        self.file = lab.directory / "join.yaml"
        self.source = ROOT
        """The tree whose `join` it is."""
        self.dies_at: Step | None = None
        """Where it is killed."""
        self.server = yaml.safe_load(lab.hub.kubeconfig.read_text())["clusters"][0]["cluster"]

    def add(self, group: Group) -> None:
        self.agent.settings["virtualClusters"].append(group.settings())

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run_without_host("--kubeconfig", str(self.lab.host.kubeconfig), *arguments)

    def run_without_host(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.file.write_text(yaml.safe_dump(settings_file(self.agent.settings)))
        environment = clean_environment()
        program = program_for(self.dies_at, environment)
        command = [sys.executable, "-m", program, "join", "--config", str(self.file)]
        return subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.source,
            env=environment,
        )

    def as_administrator(self) -> list[str]:
        """Apply with the hub's kubeconfig; return the lines of its output."""
        done = self.apply()
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def apply(self) -> subprocess.CompletedProcess[str]:
        """Apply with the hub's kubeconfig."""
        return self.run("--karmada-kubeconfig", str(self.lab.hub.kubeconfig), "--apply")

    def ca_hash(self) -> str:
        return public_key_hash(base64.b64decode(self.server["certificate-authority-data"]))

    def endpoint(self) -> str:
        return str(self.server["server"]).removeprefix("https://")

    def kubeconfig(self) -> Path:
        """Return the hub's kubeconfig that was installed for the agent."""
        file = self.lab.directory / "installed.kubeconfig"
        return installed_kubeconfig(self.lab.host, self.agent.namespace, file)

    def serve(self) -> Agent:
        """Run the agent with what was installed for it."""
        agent = self.installed("installed", *FAST).start()
        self.lab.wait_serving(agent)
        return agent

    def installed(self, name: str, *flags: str, source: Path = ROOT) -> Agent:
        """Return an agent with what was installed for it, not yet started.

        name: of its directory. source: the tree that has its program.
        """
        directory, admin = self.lab.directory / name, self.lab.host.kubeconfig
        directory.mkdir()
        file = directory / "account.kubeconfig"
        account = account_kubeconfig(admin, self.agent.namespace, self.agent.name, file)
        used, settings = Kubeconfigs(self.kubeconfig(), account), self.agent.settings
        agent = Agent(directory, used, settings, *flags, administrator=None, source=source)
        self.lab.agents.append(agent)
        self.lab.logs.append((f"agent {name}", agent.log_tail))
        return agent


def bootstrap_token(hub: Api) -> str:
    """Create a bootstrap token, as `kubectl-karmada token create` does (contract 1.7 point 1)."""
    token_id, secret = secrets.token_hex(3), secrets.token_hex(8)
    values = {
        "token-id": token_id,
        "token-secret": secret,
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:karmada:default-cluster-token",
    }
    hub.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": values,
        }
    )
    return f"{token_id}.{secret}"


def may_renew(lab: Lab, user: str) -> bool:
    """Return whether the hub approves renewals of a user, asked as Karmada's approver asks."""
    attributes = {
        "group": "certificates.k8s.io",
        "version": "*",
        "resource": "certificatesigningrequests",
        "subresource": "selfclusteragent",
        "verb": "create",
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": ["system:authenticated"],
            "resourceAttributes": attributes,
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(lab.hub.post(path, review)["status"]["allowed"])
