"""The signals that parts of the service emit, and controllers subscribe to."""

from dataclasses import dataclass, field

from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.dependencies import Dependency
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
    """an object with our label, in any namespace"""
    own_object: Change = field(default_factory=Signal)
    """an object that is where its virtual cluster may have it; the others are None"""
    node_group: Change = field(default_factory=Signal)
    """a NodeGroup of the host"""
    served: Signal[[ServedApis]] = field(default_factory=Signal)
    """what the host serves, after each look"""
    window: Signal[[str]] = field(default_factory=Signal)
    """a virtual cluster whose window opened or closed"""
    dependencies: Signal[[set[Dependency]]] = field(default_factory=Signal)
    """what changed of that which failed keys wait for"""
    bound_met: Signal[[str, str]] = field(default_factory=Signal)
    """a virtual cluster that has more than it may have, and what"""
    status_due: Signal[[str]] = field(default_factory=Signal)
    """a virtual cluster whose status is due"""
    admin_rules: Signal[[]] = field(default_factory=Signal)
    """the host serves other kinds, which roles have to list"""
    lead_regained: Signal[[]] = field(default_factory=Signal)
    """the lead is certain again"""
