"""Try on the host what its version may refuse, by dry run, before anything is written."""

from collections.abc import Awaitable, Iterator

from karmada_vc_agent.access.installed_policies import resource_of
from karmada_vc_agent.access.policy_owner import VALIDATING
from karmada_vc_agent.commands.command_errors import CommandError
from karmada_vc_agent.install.apply_objects import MANAGER, find, path_of
from karmada_vc_agent.install.host_rights import HostRights
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.errors import InvalidError
from karmada_vc_agent.model.objects import Object, key_of

_DRY = {"dryRun": "All"}
_LONGEST = 1000
_UNCONFINED = (
    "host: it serves no ValidatingAdmissionPolicy, so nothing would confine the agent and its "
    "tenants; use Kubernetes 1.30 or newer, or --unconfined to do without"
)


def check_confined(rights: HostRights, *, installs_policies: bool, unconfined: bool) -> None:
    """Refuse a host that has no policies. Raises CommandError.

    installs_policies: as the settings have it. unconfined: the administrator does without.
    """
    if installs_policies and VALIDATING not in rights.versions and not unconfined:
        raise CommandError(_UNCONFINED)


async def try_on_host(host: ApiClient, rights: HostRights, served: ServedApis) -> None:
    """Have the host validate the CustomResourceDefinition and the policies.

    Raises CommandError with all that it refuses, KubeError.
    """
    problems = []
    for obj, attempt in _attempts(host, rights, served):
        try:
            await attempt
        except InvalidError as error:
            problems.append(f"host: {key_of(obj)} is refused: {str(error)[:_LONGEST]}")
    if problems:
        raise CommandError(*problems, "Nothing was changed")


def _attempts(
    host: ApiClient, rights: HostRights, served: ServedApis
) -> Iterator[tuple[Object, Awaitable[object]]]:
    for definition in rights.definitions:
        path = path_of(definition)
        yield (
            definition,
            host.server_side_apply(path, definition, MANAGER, is_dry=True, is_forced=True),
        )
    for policy in rights.policies():
        yield policy, _put(host, resource_of(served, policy).path(), policy)


async def _put(host: ApiClient, collection: str, policy: Object) -> None:
    path = f"{collection}/{policy['metadata']['name']}"
    live = await find(host, path)
    if live is None:
        await host.create(collection, policy, query=_DRY)
        return
    version = live["metadata"]["resourceVersion"]
    body = {**policy, "metadata": {**policy["metadata"], "resourceVersion": version}}
    await host.replace(path, body, query=_DRY)
