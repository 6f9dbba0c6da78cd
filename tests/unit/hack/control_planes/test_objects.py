"""Objects for the hub, made from templates laid out like Karmada's."""

from pathlib import Path

import pytest

from control_planes import api, karmada_objects
from control_planes.errors import ControlPlanesError

WEBHOOKS = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating}
webhooks:
  - clientConfig:
      url: https://karmada-webhook.karmada-system.svc:443/validate
      caBundle: {{caBundle}}
"""


@pytest.fixture(name="module")
def make_module(tmp_path: Path) -> Path:
    (tmp_path / karmada_objects.DEPLOY).mkdir(parents=True)
    (tmp_path / "ca.crt").write_text("ca")
    return tmp_path


def test_webhooks_are_led_to_a_port_on_loopback(module: Path) -> None:
    (module / karmada_objects.DEPLOY / "webhook-configuration.yaml").write_text(WEBHOOKS)

    [item] = karmada_objects.webhook_configurations(module, 4001, module / "ca.crt")

    client = item["webhooks"][0]["clientConfig"]
    assert client == {"url": "https://localhost:4001/validate", "caBundle": "Y2E="}


def test_changed_template_is_refused(module: Path) -> None:
    text = WEBHOOKS.replace("svc:443", "svc:8443")
    (module / karmada_objects.DEPLOY / "webhook-configuration.yaml").write_text(text)

    with pytest.raises(ControlPlanesError, match="has Karmada changed it"):
        karmada_objects.webhook_configurations(module, 4001, module / "ca.crt")


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"apiVersion": "v1", "kind": "Node", "metadata": {}}, "/api/v1/nodes"),
        (
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"namespace": "kube-public"},
            },
            "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public/roles",
        ),
    ],
)
def test_collection_path_follows_group_and_namespace(item: api.Object, path: str) -> None:
    assert api.collection_path(item) == path
