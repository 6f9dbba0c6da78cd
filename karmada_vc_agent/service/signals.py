"""What parts of the service tell, and controllers may listen to; made before either of them."""

from dataclasses import dataclass, field

from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.views.interpreter_rules import Concerns
from karmada_vc_agent.views.works import WorkKey

Change = Signal[[Object | None, Object | None]]
"""old and new object; None = was or is not there"""


@dataclass(frozen=True, slots=True)
class Signals:
    """All signals that are no store's.

    work: (virtual cluster, old, new) of a Work. work_due: a Work that changed, or an object of
    it, other than by its own sync. work_affected: a Work, as `<execution namespace>/<name>`, that
    shares something which another one changed. meaning: what the interpreter says otherwise now.
    host_object: an object with our label, wherever it lies. own_object: one that lies where its
    virtual cluster may have it; the others are None. policy, node_group: such an object of the
    host. served: what the host serves, after each look. placement: PlacementEnforced changed.
    """

    work: Signal[[str, Object | None, Object | None]] = field(default_factory=Signal)
    work_due: Signal[[WorkKey]] = field(default_factory=Signal)
    work_affected: Signal[[str]] = field(default_factory=Signal)
    meaning: Signal[[Concerns]] = field(default_factory=Signal)
    host_object: Change = field(default_factory=Signal)
    own_object: Change = field(default_factory=Signal)
    policy: Change = field(default_factory=Signal)
    node_group: Change = field(default_factory=Signal)
    served: Signal[[ServedApis]] = field(default_factory=Signal)
    placement: Signal[[]] = field(default_factory=Signal)
