"""The agent renews the certificate by which the hub knows it, and goes on without a restart."""

import base64
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from e2e.lab import objects
from e2e.lab.access import SHORTEST_LIFETIME_S
from e2e.lab.agent import Agent
from e2e.lab.api import Object, collection
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.wait import STARTED_S, within

REQUESTS = collection("certificates.k8s.io/v1", "CertificateSigningRequest")
# The signer backdates by five minutes: of fifteen there are ten left at the beginning.
SOON = (
    *("--controllers", "*,certRotation"),
    *("--cert-rotation-checking-interval", "1s"),
    *("--cert-rotation-remaining-time-threshold", "0.66"),
)


@pytest.mark.smoke
def test_certificate_is_renewed_in_the_file_and_used_at_once(lab: Lab) -> None:
    group = lab.group("a")
    agent = _agent(lab, group)
    before = _certificate(agent.hub_kubeconfig)
    lab.wait_ready(group.name)

    def look() -> Object:
        after = _certificate(agent.hub_kubeconfig)
        assert after.serial_number != before.serial_number
        assert after.subject == before.subject
        assert after.not_valid_after_utc > before.not_valid_after_utc
        return {}

    within(STARTED_S, look)
    _assert_approved_by_karmada(lab)
    within(STARTED_S, lambda: _says(agent.log(), "Using a new hub credential"))
    # The old certificate is worth nothing to the agent any more, and it serves as before.
    manifest = objects.config_map(lab.namespace())
    lab.wait_applied(lab.create_work(group, "after", manifest))
    assert agent.is_running()
    agent.restart()
    lab.wait_applied(lab.create_work(group, "restarted", objects.config_map(lab.id, "more")))


def test_certificate_is_renewed_in_the_secret_of_the_host(lab: Lab) -> None:
    group = lab.group("a")
    agent = _agent(lab, group)
    namespace = agent.namespace
    within(STARTED_S, lab.host.get, f"/api/v1/namespaces/{namespace}")
    content = base64.b64encode(agent.hub_kubeconfig.read_bytes()).decode()
    secret = lab.host.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "karmada-kubeconfig", "namespace": namespace},
            "data": {"karmada-kubeconfig": content},
        }
    )

    def look() -> x509.Certificate:
        live = lab.host.get(f"/api/v1/namespaces/{namespace}/secrets/karmada-kubeconfig")
        assert live["data"] != secret["data"]
        copy = lab.directory / "copy.kubeconfig"
        copy.write_bytes(base64.b64decode(live["data"]["karmada-kubeconfig"]))
        return _certificate(copy)

    renewed = within(STARTED_S, look)
    kept = f"Secret {namespace}/karmada-kubeconfig"
    within(STARTED_S, lambda: _says(agent.log(), kept))
    in_file = _certificate(agent.hub_kubeconfig)
    assert renewed.serial_number == in_file.serial_number


def test_changed_kubeconfig_is_used_without_a_restart(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group)
    before = _certificate(agent.hub_kubeconfig)
    agent.join(keeps_certificate=False)
    after = _certificate(agent.hub_kubeconfig)
    assert after.serial_number != before.serial_number
    within(STARTED_S, lambda: _says(agent.log(), "Using changed credentials"))
    manifest = objects.config_map(lab.namespace())
    lab.wait_applied(lab.create_work(group, "after", manifest))


def _agent(lab: Lab, group: Group) -> Agent:
    """Start an agent whose certificate lives as short as it may."""
    flags = (*FAST, *SOON)
    return lab.new_agent(group, flags=flags, certificate_s=SHORTEST_LIFETIME_S).start()


def _says(log: str, text: str) -> None:
    assert text in log


def _assert_approved_by_karmada(lab: Lab) -> None:
    """Check that nobody but Karmada's own controller approved the renewal."""
    user = f"system:karmada:agent:{lab.id}"
    requests = [one for one in lab.hub.list(REQUESTS) if one["spec"]["username"] == user]
    assert requests
    for request in requests:
        approvals = [c for c in request["status"]["conditions"] if c["type"] == "Approved"]
        assert [c["reason"] for c in approvals] == ["AutoApproved"]
        assert "Auto approving self karmada agent certificate" in approvals[0]["message"]


def _certificate(kubeconfig: Path) -> x509.Certificate:
    (user,) = yaml.safe_load(kubeconfig.read_text())["users"]
    return x509.load_pem_x509_certificate(base64.b64decode(user["user"]["client-certificate-data"]))
