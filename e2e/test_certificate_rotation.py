"""The agent renews the certificate by which the hub knows it, and goes on without a restart."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lab import certificates, objects
from e2e.lab.api import Object
from e2e.lab.lab import FAST, Lab
from e2e.lab.wait import eventually

ROOT = Path(__file__).resolve().parents[1]
RIGHTS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
# The signer backdates by five minutes: of fifteen there are ten left at the beginning.
SOON = (
    *("--controllers", "*,certRotation"),
    *("--cert-rotation-checking-interval", "1s"),
    *("--cert-rotation-remaining-time-threshold", "0.66"),
)


@pytest.fixture
def credential(lab: Lab) -> Iterator[Path]:
    """Return a kubeconfig for the hub with a short-lived certificate that may do all."""
    name = f"{lab.id}-agent"
    # What the agent must be allowed for a renewal is in manifests/hub.yaml; the test of the
    # roles is another one. Approval asks for a right of the group, not for that of the user.
    binding = lab.hub.create(_all_rights(name))
    try:
        yield certificates.agent_kubeconfig(lab.hub, lab.directory / "hub.kubeconfig", name)
    finally:
        lab.hub.delete(f"{RIGHTS}/{binding['metadata']['name']}")
        for request in lab.hub.list(certificates.REQUESTS):
            if request["metadata"]["name"].startswith(name):
                lab.hub.delete(f"{certificates.REQUESTS}/{request['metadata']['name']}")


def test_certificate_is_renewed_in_the_file_and_used_at_once(lab: Lab, credential: Path) -> None:
    group = lab.group("a")
    before = certificates.certificate_of(credential.read_text())
    agent = lab.new_agent(group, flags=(*FAST, *SOON), hub=credential, is_admin=True).start()
    lab.wait_ready(group.name)

    def look() -> Object:
        after = certificates.certificate_of(credential.read_text())
        assert after.serial_number != before.serial_number
        assert after.subject == before.subject
        assert after.not_valid_after_utc > before.not_valid_after_utc
        return {}

    eventually(look)
    _assert_approved_by_karmada(lab)
    eventually(lambda: _says(agent.log(), "Using a new hub credential"))
    # The old certificate is worth nothing to the agent any more, and it serves as before.
    manifest = objects.config_map(lab.namespace())
    lab.wait_applied(lab.create_work(group, "after", manifest))
    assert agent.is_running()
    agent.restart()
    lab.wait_applied(lab.create_work(group, "restarted", objects.config_map(lab.id, "more")))


def test_certificate_is_renewed_in_the_secret_of_the_host(lab: Lab, credential: Path) -> None:
    group = lab.group("a")
    namespace = f"{lab.id}-agent"
    lab.host.create(objects.namespace(namespace))
    content = base64.b64encode(credential.read_bytes()).decode()
    secret = lab.host.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "karmada-kubeconfig", "namespace": namespace},
            "data": {"karmada-kubeconfig": content},
        }
    )
    agent = lab.new_agent(group, flags=(*FAST, *SOON), hub=credential, is_admin=True).start()

    def look() -> str:
        live = lab.host.get(f"/api/v1/namespaces/{namespace}/secrets/karmada-kubeconfig")
        assert live["data"] != secret["data"]
        return base64.b64decode(live["data"]["karmada-kubeconfig"]).decode()

    renewed = certificates.certificate_of(eventually(look))
    kept = f"Secret {namespace}/karmada-kubeconfig"
    eventually(lambda: _says(agent.log(), kept))
    assert (
        renewed.serial_number == certificates.certificate_of(credential.read_text()).serial_number
    )


def test_kubeconfig_that_somebody_changes_is_used_without_a_restart(
    lab: Lab, credential: Path
) -> None:
    group = lab.group("a")
    agent = lab.serve(group, hub=credential, is_admin=True)
    other = lab.directory / "other.kubeconfig"
    certificates.agent_kubeconfig(lab.hub, other, f"{lab.id}-agent")
    credential.write_text(other.read_text())
    eventually(lambda: _says(agent.log(), "Using changed credentials"))
    manifest = objects.config_map(lab.namespace())
    lab.wait_applied(lab.create_work(group, "after", manifest))


def _says(log: str, text: str) -> None:
    assert text in log


def _assert_approved_by_karmada(lab: Lab) -> None:
    """Check that nobody but Karmada's own controller approved the renewal."""
    requests = [
        one
        for one in lab.hub.list(certificates.REQUESTS)
        if one["metadata"]["name"].startswith(f"{lab.id}-agent")
    ]
    assert requests
    for request in requests:
        approvals = [c for c in request["status"]["conditions"] if c["type"] == "Approved"]
        assert [c["reason"] for c in approvals] == ["AutoApproved"]
        assert "Auto approving self karmada agent certificate" in approvals[0]["message"]


def _all_rights(name: str) -> Object:
    subject = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "User",
        "name": certificates.NAME_PREFIX + name,
    }
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": subject | {"kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [subject],
    }
