"""Services: the host reassigns fixed node ports that are taken (rewriting-rules 4.3)."""

from dataclasses import replace

from karmada_vc_agent.kube.errors import InvalidError
from karmada_vc_agent.translation.notices import node_port_reassigned
from karmada_vc_agent.work.host_objects import Applied, HostObjects
from karmada_vc_agent.work.preconditions import Preconditions
from karmada_vc_agent.work.rules import node_ports
from karmada_vc_agent.work.rules.apply_plan import Foreign
from karmada_vc_agent.work.strategies.own_object import OwnObject
from karmada_vc_agent.work.target import Target


class ServicePorts(OwnObject):
    """Writes a Service; lets the host choose in place of fixed node ports that are taken."""

    def __init__(self, host_objects: HostObjects, preconditions: Preconditions) -> None:
        super().__init__(host_objects)
        self._preconditions = preconditions

    async def apply(self, target: Target) -> Applied | Foreign:
        """Write the Service; reports the node ports that the host chose in place of fixed ones."""
        await self._preconditions.meet(target)
        translated, resource = target.object, target.resource
        key, check, as_user = (
            translated.host_key,
            target.check_of(translated),
            target.as_user(translated),
        )
        live = await self._host_objects.known(resource, key.namespace, key.name)
        desired = node_ports.keep_assigned(translated.obj, live)
        try:
            result = await self._host_objects.apply(resource, desired, check, as_user)
        except InvalidError as error:
            taken = node_ports.taken_ports(str(error))
            if not taken:
                raise
            desired = node_ports.without(desired, taken)
            result = await self._host_objects.apply(resource, desired, check, as_user)
        if isinstance(result, Foreign):
            return result
        found = node_ports.reassigned(result.live)
        return replace(result, notices=tuple(node_port_reassigned(*ports) for ports in found))
