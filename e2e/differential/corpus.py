"""All cases: what is in the modules of `cases`."""

from e2e.differential.cases import (
    cluster,
    conflicts,
    metadata,
    plain,
    policies,
    services,
    wide,
    workloads,
    works,
)
from e2e.differential.cases.registry import CASES, FROM_MINOR, NEEDS

MODULES = (workloads, services, plain, wide, metadata, works, conflicts, policies, cluster)
__all__ = ["CASES", "FROM_MINOR", "MODULES", "NEEDS"]
