"""The controller that renews the hub credential; a module of its own, loaded where it is on."""

import logging
from datetime import UTC, datetime

from karmada_vc_agent.controllers.certificate import CertificateController, Rule
from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.lifecycle.hub_kubeconfig import FileStore, SecretStore
from karmada_vc_agent.service.common import Common

_log = logging.getLogger(__name__)

KEY = "hub"
"""There is one credential."""


def rotation(common: Common) -> ControllerSpec[str] | None:
    """Return the controller; None where there is no file to renew."""
    config, clients = common.config, common.clients
    kubeconfig = clients.hub.credentials.kubeconfig
    if kubeconfig is None:
        _log.warning("Not renewing the hub credential: it comes from no kubeconfig")
        return None
    namespace = config.karmada_kubeconfig_namespace or config.agent_namespace
    controller = CertificateController(
        clients.hub,
        clients.hub.credentials,
        (FileStore(kubeconfig), SecretStore(clients.host, namespace)),
        Rule(
            config.cert_rotation_checking_interval,
            config.cert_rotation_remaining_time_threshold,
        ),
        clients.use_for_hub,
        lambda: datetime.now(UTC),
    )
    return ControllerSpec(
        "cert-rotation",
        common.queues.certificate,
        controller.reconcile,
        by_cluster=False,
        initial_keys=lambda: (KEY,),
    )
