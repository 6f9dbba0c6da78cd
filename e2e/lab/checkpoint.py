"""What an agent kept of the hub, as its next start would read it."""

from e2e.lab.agent import Agent
from e2e.lab.api import Api, Object, collection
from e2e.lab.lab import Group, Lab
from karmada_vc_agent.features.checkpoint.reader import Expected, Saved, read
from karmada_vc_agent.model.objects import annotations_of
from karmada_vc_agent.model.vocabulary import CHECKPOINT_ANNOTATION, secret_names

TEMPLATE = "{namespace}-v-{cluster}"
KEPT, OFF = {"enabled": True}, {"enabled": False}
"""Setting `checkpoint`."""


def secrets_of(host: Api, agent: Agent) -> list[Object]:
    """Return the Secrets that are there."""
    names = secret_names(agent.name)
    found = host.get(collection("v1", "Secret", agent.namespace))["items"]
    return [each for each in found if each["metadata"]["name"] in names]


def saved(host: Api, agent: Agent) -> Saved:
    """Return what may be used of them."""
    return read(
        [each.get("data") or {} for each in secrets_of(host, agent)], Expected(TEMPLATE, {})
    )


def manifest_saved(host: Api, agent: Agent, cluster: str, like: Object) -> Object | None:
    """Return the saved manifest of the kind and name of an object, None where there is none.

    Karmada gives every Cluster the Namespaces of all templates, so there are other Works, too.
    """
    for work in saved(host, agent).works(cluster):
        for manifest in work["spec"]["workload"]["manifests"]:
            if _identity(manifest) == _identity(like):
                found: Object = manifest
                return found
    return None


def is_saved(lab: Lab, agent: Agent, group: Group, manifest: Object) -> None:
    """Raise AssertionError unless a manifest of that kind and name is saved; for `eventually`."""
    found = manifest_saved(lab.host, agent, group.name, manifest)
    assert found is not None, "it is not in the checkpoint"
    is_trusted(lab, agent)


def is_trusted(lab: Lab, agent: Agent) -> None:
    """Raise AssertionError while a note, or the Lease, keeps a start from serving what is saved.

    The leader writes into the Lease that it keeps the checkpoint when it renews it first.
    """
    leases = collection("coordination.k8s.io/v1", "Lease", agent.namespace)
    lease = lab.host.find(f"{leases}/{agent.name}")
    if lease is not None:  # an agent without leader election has none
        kept = annotations_of(lease).get(CHECKPOINT_ANNOTATION)
        assert kept == str(lease["spec"].get("leaseTransitions", 0)), lease
    maps = collection("v1", "ConfigMap", agent.namespace)
    noted = lab.host.get(f"{maps}/{agent.name}-state").get("data") or {}
    assert not [key for key in noted if key.startswith("checkpoint-outdated")]


def is_kept(lab: Lab, agent: Agent, group: Group) -> None:
    """Raise AssertionError unless a start without the hub can serve it; for `eventually`."""
    found = saved(lab.host, agent)
    assert group.name in found.clusters, f"it is not in the checkpoint: {found.refusals}"
    assert found.contact, "no contact is in the checkpoint"
    assert found.contact.hub, "of which hub it is, is not in the checkpoint"


def _identity(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]
