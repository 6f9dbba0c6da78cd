"""Each fault of e2e/seeded/faults.yaml is made; `explain` or `doctor` names it.

Steps that are commands are run as they are printed, and mend it.
"""

import re
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.lab.agent import run_command
from e2e.lab.joining import RULES_OF_OTHERS, Joining
from e2e.lab.karmadactl import User
from e2e.lab.kubectl import kubectl
from e2e.lab.lab import Lab
from e2e.lab.tiers import rows
from e2e.lab.wait import BACKED_OFF_S, within
from e2e.seeded import chain, site
from e2e.seeded.chain import Case
from e2e.seeded.site import Site
from e2e.seeded.table import ROWS, expression

pytestmark = pytest.mark.shared_agent

FINE = 0


NIGHTLY = (
    *("policy_misspells_the_template", "policy_names_a_wrong_cluster", "placed_on_another_cluster"),
    *("two_policies_claim_one_template", "misspelt_cluster", "misspelt_template"),
    *("suspended_work", "closed_window", "paused", "held_namespace", "overlapping_groups"),
    *("full_node", "cordoned_node", "image_that_never_starts"),
)
"""Read of objects alone, as `no_policy_matches`, `tainted_cluster`, `pods_that_fit_nowhere` and
`container_that_crashes` are; tests/unit/diagnosis/test_explain.py has them all."""


def names(command: str) -> list[str]:
    return [name for name, row in ROWS.items() if row.command == command]


@pytest.mark.parametrize("name", rows(names("explain"), NIGHTLY))
def test_explain_names(lab: Lab, name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    row, make = ROWS[name], getattr(chain, name)
    with ExitStack() as ends:
        case = Case(lab, tmp_path, ends)
        make(case)
        what = f"{case.template['metadata']['namespace']}/{case.kind or case.template['kind']}/"
        arguments = ["explain", what + case.template["metadata"]["name"]]
        arguments += ["-C", case.cluster] if case.cluster else []
        arguments += ["--config", str(case.agent.config)]
        arguments += ["--karmada-kubeconfig", str(case.hub), "--kubeconfig", str(case.host)]

        def says(line: str, step: str, code: int, also: str = "") -> str:
            done = run_command(*arguments)
            first, second, *_ = [*done.stdout.splitlines(), "", ""]
            assert re.fullmatch(line, first), done.stdout + done.stderr
            assert re.fullmatch(f"next: {step}", second), second
            assert done.returncode == code
            assert also in done.stdout
            return second.removeprefix("next: ")

        line, step = expression(row.line, case.values), expression(row.next, case.values)
        printed = within(BACKED_OFF_S, says, line, step, row.code, row.also.format_map(case.values))
        if row.mends:
            run(printed, lab, request)
            within(BACKED_OFF_S, says, "nothing is broken in .*", ".*", FINE)


@pytest.fixture(scope="module")
def joined(new_lab: Callable[[], Lab]) -> Site:
    """Return an agent of which nothing is wrong, beside the host: no Pod of it need run."""
    lab = new_lab()
    group = lab.group("a")
    joining = Joining(lab, group)
    # No node joins such a group by itself.
    by_name = {"name": group.name, "nodeNames": group.nodes}
    joining.agent.settings["virtualClusters"] = [by_name]
    values = {"agent": joining.agent.name, "agent_namespace": joining.agent.namespace}
    values["cluster"] = group.name
    made = Site(joining, joining.agent, group, lab.hub.kubeconfig, values)
    made.join()
    return replace(made, agent=joining.serve())


@pytest.mark.parametrize("name", names("doctor"))
def test_doctor_names(
    joined: Site, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    row, make, lab = ROWS[name], getattr(site, name), joined.joining.lab
    case = replace(joined, values=dict(joined.values))

    def says(expected: str, own: str = "") -> str:
        options = ("--config", str(joined.joining.file), "--kubeconfig", str(lab.host.kubeconfig))
        hub = ("--karmada-kubeconfig", str(case.hub))
        done = run_command("doctor", *options, *hub, "--", "--elsewhere")
        lines = done.stdout.splitlines()
        rest = [x for x in lines if re.fullmatch(own, x) or not RULES_OF_OTHERS.match(x)]
        first = next(iter(rest), NOTHING)
        assert re.fullmatch(expected, first), done.stdout + done.stderr
        assert done.returncode == (0 if lines == [NOTHING] else row.code)
        return first.partition("; next: ")[2]

    within(BACKED_OFF_S, says, NOTHING)
    with ExitStack() as ends:
        make(case, ends, tmp_path)
        line = expression(f"{row.line}; next: {row.next}", case.values)
        printed = within(BACKED_OFF_S, says, line, line)
        if row.mends:
            run(printed, lab, request)
            within(BACKED_OFF_S, says, NOTHING, line)


NOTHING = "Nothing is wrong"


def run(step: str, lab: Lab, request: pytest.FixtureRequest) -> None:
    """Run a next step as it is printed, but for the kubeconfig that a user has set."""
    program, *arguments = shlex.split(step, comments=True)
    if program == "karmada-vc-agent":
        done = run_command(*arguments, stdin="y\n")
        assert done.returncode == 0, done.stderr
    elif arguments[0] == "karmada":
        own = request.config.getoption("--kubectl-karmada")
        User(lab.hub.kubeconfig, lab.directory, own).karmada(*arguments[1:])
    else:
        assert "# on the h" in step, "of which side?"
        api = lab.host if "# on the host" in step else lab.hub
        kubectl(api.kubeconfig, *arguments)
