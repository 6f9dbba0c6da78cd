"""The features of this agent, a row for each."""

from karmada_vc_agent.config.settings import with_features
from karmada_vc_agent.features.adoption.feature import FEATURE as ADOPTION
from karmada_vc_agent.features.certificate.feature import FEATURE as CERTIFICATE
from karmada_vc_agent.features.checkpoint.feature import FEATURE as CHECKPOINT
from karmada_vc_agent.features.deletion_brake.feature import FEATURE as DELETION_BRAKE
from karmada_vc_agent.features.discovered.feature import FEATURE as DISCOVERED
from karmada_vc_agent.features.escapes.feature import FEATURE as ESCAPES
from karmada_vc_agent.features.gateway.feature import FEATURE as GATEWAY
from karmada_vc_agent.features.host_events.feature import FEATURE as HOST_EVENTS
from karmada_vc_agent.features.objects.feature import FEATURE as OBJECTS
from karmada_vc_agent.features.policies.feature import FEATURE as POLICIES
from karmada_vc_agent.features.quota.feature import FEATURE as QUOTA
from karmada_vc_agent.features.service_export.feature import FEATURE as SERVICE_EXPORT
from karmada_vc_agent.features.service_names.feature import FEATURE as SERVICE_NAMES
from karmada_vc_agent.features.shards.feature import FEATURE as SHARDS
from karmada_vc_agent.features.windows.feature import FEATURE as WINDOWS
from karmada_vc_agent.runner.parts import Feature

FEATURES: tuple[Feature, ...] = (
    SHARDS,
    SERVICE_EXPORT,
    SERVICE_NAMES,
    QUOTA,
    POLICIES,
    ESCAPES,
    HOST_EVENTS,
    GATEWAY,
    WINDOWS,
    ADOPTION,
    CERTIFICATE,
    OBJECTS,
    DISCOVERED,
    # Before what is deleted leaves the checkpoint.
    DELETION_BRAKE,
    CHECKPOINT,
)

CONFIG = with_features(each.settings for each in FEATURES)
"""AgentConfig with the settings of these features."""

HUB_ROLES = {name: path for each in FEATURES for name, path in each.hub_roles.items()}
"""Files with the rights of these features on the hub, for HubAccess."""
