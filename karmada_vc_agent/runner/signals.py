"""What parts of the service tell, and controllers may listen to; made before either of them."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.grounds import Ground
from karmada_vc_agent.work.interpreter_rules import Concerns
from karmada_vc_agent.work.works import WorkKey

Change = Signal[[Object | None, Object | None]]
"""old and new object; None = was or is not there"""


@dataclass(frozen=True, slots=True)
class Signals:
    """All signals that are no store's."""

    work: Signal[[str, Object | None, Object | None]] = field(default_factory=Signal)
    """virtual cluster, old and new of a Work"""
    work_due: Signal[[WorkKey]] = field(default_factory=Signal)
    """a Work that changed, or an object of it, other than by its own sync"""
    work_affected: Signal[[str]] = field(default_factory=Signal)
    """`<execution namespace>/<name>` of a Work that shares something which another one changed"""
    meaning: Signal[[Concerns]] = field(default_factory=Signal)
    """what the interpreter says otherwise now"""
    host_object: Change = field(default_factory=Signal)
    """an object with our label, wherever it lies"""
    own_object: Change = field(default_factory=Signal)
    """an object that lies where its virtual cluster may have it; the others are None"""
    node_group: Change = field(default_factory=Signal)
    """a NodeGroup of the host"""
    served: Signal[[ServedApis]] = field(default_factory=Signal)
    """what the host serves, after each look"""
    ground: Signal[[Ground, str | None]] = field(default_factory=Signal)
    """what refusals may depend on, and which one of its kind changed; None = any of them"""
    bound_met: Signal[[str, str]] = field(default_factory=Signal)
    """a virtual cluster that has more than it may have, and what"""
    status_due: Signal[[str]] = field(default_factory=Signal)
    """a virtual cluster whose status is to be computed anew"""
    admin_rules: Signal[[]] = field(default_factory=Signal)
    """the host serves other kinds, which roles have to list"""
    hook_answers: Signal[[str, Hashable]] = field(default_factory=Signal)
    """a virtual cluster, and a webhook that answers it again"""
    lead_regained: Signal[[]] = field(default_factory=Signal)
    """the lead is certain again"""
