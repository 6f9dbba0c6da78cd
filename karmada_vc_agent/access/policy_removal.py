"""Remove the admission policies of an agent from the host."""

from collections.abc import Iterator

from karmada_vc_agent.access.policy_owner import GROUP, VERSIONS
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource, ServedApis
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.model.objects import GroupVersionKind


async def remove_policies(
    host: ApiClient, served: ServedApis, agent: str, only: str = ""
) -> list[str]:
    """Remove all policies of an agent; return them as `<kind> <name>`. Raises KubeError.

    only: the name of the one to remove, with its binding.
    """
    removed = []
    for resource in _resources(served):
        answer = await host.get(resource.path(), {"labelSelector": f"{AGENT_LABEL}={agent}"})
        for policy in answer.get("items") or ():
            name = policy["metadata"]["name"]
            if only and name != only:
                continue
            try:
                await host.delete(resource.path(name=name))
            except NotFoundError:
                continue
            removed.append(f"{resource.gvk.kind} {name}")
    return removed


def _resources(served: ServedApis) -> Iterator[Resource]:
    """Yield bindings before policies: a policy without one does nothing."""
    for kind in (*(f"{policy}Binding" for policy in VERSIONS), *VERSIONS):
        for version in VERSIONS[kind.removesuffix("Binding")]:
            resource = served.by_kind.get(GroupVersionKind(GROUP, version, kind))
            if resource is not None:
                yield resource
                break
