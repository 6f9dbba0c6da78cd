"""docs/conditions.md is what the conditions declare of themselves."""

from collections import Counter
from pathlib import Path

from generate.conditions_page import page
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.features.objects.status import OF_OBJECT_STATUS
from karmada_vc_agent.runner.parts import OF_CLUSTER_STATUS, declared_conditions

DOCUMENT = Path(__file__).parents[3] / "docs" / "conditions.md"


def test_page_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == page(), "run hack/update-conditions"


def test_each_type_is_declared_once() -> None:
    names = Counter(
        [
            kind.name
            for kind in (
                *OF_CLUSTER_STATUS,
                *OF_OBJECT_STATUS,
                *(spec.type for spec in declared_conditions(FEATURES)),
            )
        ]
    )
    assert names.most_common(1)[0][1] == 1
