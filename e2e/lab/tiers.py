"""Which stories, and which rows of their tables, are run always, and which only nightly."""

import zlib
from collections.abc import Collection, Iterable

import pytest
from _pytest.mark import ParameterSet

OTHERS, CHECKS_AND_KIND, UP_AND_DOWN_S = 9, 4.5, 250
"""Of a run whose smoke took 430 s: 1,140 other stories, and all that is not stories, by smoke."""
HELD_BY = {
    "faults/test_hub_connection.py": {
        "test_several_faults_in_a_row_are_survived": (
            "test_fault_of_the_connection_costs_nothing_but_its_time"
        ),
        "test_fault_of_the_connection_costs_nothing_but_its_time[stall in an answer]": (
            "faults/test_host_connection.py::test_what_changed_on_both_sides_meanwhile_is_put_right"
        ),
    },
    "faults/test_host_connection.py": {
        "test_what_changed_on_both_sides_meanwhile_is_put_right[half-close]": (
            "faults/test_hub_connection.py::test_fault_of_the_connection_costs_nothing_but_its_time"
        ),
    },
    "faults/test_matrix.py": dict.fromkeys(
        (
            f"test_hub_host_and_status_agree_after[{cell}]"
            for cell in (
                *("cut-hub-running", "refuse-host-taken over", "delay-host-restarted"),
                "resets-hub-taken over",
            )
        ),
        "faults/test_hub_connection.py::test_fault_of_the_connection_costs_nothing_but_its_time",
    ),
    "faults/test_pages.py": {
        "test_start_waits_while_the_host_is_a_page": (
            "test_agent_changes_nothing_while_the_host_is_a_page"
        ),
        "test_standby_takes_over_while_the_hub_is_a_page": (
            "test_leader_election.py::test_a_standby_takes_over_when_the_leader_is_killed"
        ),
    },
    "test_changes_through_the_hub.py": dict.fromkeys(
        (
            f"test_every_kind_of_workload_selects_the_nodes_of_its_cluster[{kind}]"
            for kind in ("StatefulSet", "Job")
        ),
        "test_every_kind_of_workload_selects_the_nodes_of_its_cluster[CronJob]",
    ),
    "test_checkpoint.py": {
        "test_a_restart_without_the_hub_repairs_and_recreates[_silence]": (
            "test_a_restart_without_the_hub_repairs_and_recreates[_cut]"
        ),
    },
    "test_checkpoint_killed.py": {
        "test_a_removal_is_neither_undone_nor_anything_lost[its object deleted]": (
            "test_a_removal_is_neither_undone_nor_anything_lost[struck out]"
        ),
        "test_a_change_is_kept_whole_or_not_at_all[the change saved]": (
            "test_a_change_is_kept_whole_or_not_at_all[before the change is saved]"
        ),
        "test_resharded_works_are_all_there[after 5 Secrets]": (
            "test_resharded_works_are_all_there[after 2 Secrets]"
        ),
    },
    "test_checkpoint_refused.py": {
        "test_a_quota_that_is_full_is_named_and_holds_nothing_up": (
            "test_a_policy_that_refuses_its_secrets_holds_nothing_up_and_brings_nothing_back"
        ),
        "test_agent_with_the_rights_of_an_earlier_join_continues_without_it": (
            "test_checkpoint_kept.py::"
            "test_without_the_rights_the_agent_continues_without_a_checkpoint"
        ),
    },
    "test_cluster_deleted.py": {
        "test_deleted_cluster_returns_with_changed_settings": (
            "test_deleted_cluster_returns_with_reregister"
        ),
        "test_cluster_deleted_while_the_agent_restarts_is_removed": (
            "test_a_deleted_cluster_stays_deleted_when_the_agent_restarts"
        ),
    },
    "test_deletion_brake.py": {
        "test_templates_deleted_with_their_namespace_are_held": (
            "test_policy_that_sends_everything_elsewhere_is_held"
        ),
        "test_execution_namespace_deleted_by_mistake_is_held": (
            "test_cluster_deleted_by_mistake_is_held_until_it_is_confirmed"
        ),
        "test_what_was_deleted_while_the_hub_was_a_page_is_held": (
            "test_hub_restored_to_when_it_deleted_everything_is_held"
        ),
    },
    "test_end_of_claims.py": dict.fromkeys(
        (f"test_what_was_never_applied_is_finalised[settings{n}]" for n in (1, 2)),
        "test_what_was_never_applied_is_finalised[settings0]",
    ),
    "test_gateway_namespaces_later.py": {
        "test_its_life_is_seen_by_a_watch[application/json;as=Table;v=v1;g=meta.k8s.io]": (
            "test_its_life_is_seen_by_a_watch[application/json]"
        ),
    },
    "test_interpreter_customizations.py": dict.fromkeys(
        (
            f"test_bad_script_is_reported_and_blocks_no_one[{how}]"
            for how in ("bomb", "pathological", "crash")
        ),
        "test_bad_script_is_reported_and_blocks_no_one[endless]",
    ),
    "test_interpreter_webhooks.py": dict.fromkeys(
        (
            f"test_failing_webhook_is_reported_and_called_again[{how}]"
            for how in ("not-successful", "no-health")
        ),
        "test_failing_webhook_is_reported_and_called_again[timeout]",
    ),
    "test_leave.py": {
        "test_preserved_resources_stay_though_the_hub_rewrites_their_works": (
            "test_preserved_resources_stay_without_marks"
        ),
        "test_prune_removes_a_namespace_only_when_nothing_of_others_is_in_it": (
            "test_orphans_are_reported_and_only_prune_removes_them"
        ),
    },
    "test_moves.py": {
        "test_each_way_follows_another_and_loses_nothing[join-helm-join]": (
            "test_each_way_follows_another_and_loses_nothing[helm-join-helm]"
        ),
    },
    "test_name_taken.py": {
        "test_a_name_that_becomes_free_is_registered[all Clusters]": (
            "test_a_name_that_becomes_free_is_registered[by name]"
        ),
    },
    "test_odd_objects.py": dict.fromkeys(
        (
            "test_an_override_that_makes_metadata_odd_costs_its_manifest",
            "test_a_host_object_nested_deep_costs_its_status",
        ),
        "test_what_is_nested_too_deep_costs_its_manifest",
    ),
    "test_outages.py": {
        "test_agent_ends_on_a_signal_although_an_api_server_is_away[silence-hub]": (
            "test_agent_ends_on_a_signal_although_an_api_server_is_away[silence-host]"
        ),
        "test_agent_ends_on_a_signal_although_an_api_server_is_away[cut-host]": (
            "test_agent_ends_on_a_signal_although_an_api_server_is_away[cut-hub]"
        ),
    },
    "test_placement_enforced.py": dict.fromkeys(
        (
            f"test_a_host_that_adds_the_selector_itself_is_recognised[{how}]"
            for how in ("plugin-alone", "mutating-policy")
        ),
        "test_a_host_that_adds_the_selector_itself_is_recognised[plugin]",
    ),
    "test_renamed.py": {
        "test_the_first_name_is_taken_back_and_restarts_no_pod[later]": (
            "test_the_first_name_is_taken_back_and_restarts_no_pod[at once]"
        ),
    },
    "test_selector_changed.py": {
        "test_deployments_move_and_what_cannot_ends_where_it_runs_and_is_reported[True]": (
            "test_deployments_move_and_what_cannot_ends_where_it_runs_and_is_reported[False]"
        ),
    },
    "test_suspension.py": {
        "test_a_preserved_object_stays_on_the_host_without_marks[config_map]": (
            "test_a_preserved_object_stays_on_the_host_without_marks[deployment]"
        ),
    },
    "test_upgrade.py": dict.fromkeys(
        (
            f"test_killed_join_is_finished_by_another[{at}]"
            for at in ("between-policies", "before-bindings")
        ),
        "test_killed_join_is_finished_by_another[before-the-deployment]",
    ),
    "test_virtual_cluster_objects.py": {
        "test_preserved_one_leaves_what_it_created_though_unserved_then": (
            "test_preserved_one_leaves_what_it_made"
        ),
    },
}
"""By file: a story or a row that is run nightly -> the one, always run, that holds the same but for
the way there. On a slow machine a whole run took longer than CI lets it."""


def mark(item: pytest.Item) -> None:
    """Mark an item of the table as nightly."""
    file, _, name = item.nodeid.removeprefix("e2e/").partition("::")
    if {name, name.partition("[")[0]} & HELD_BY.get(file, {}).keys():
        item.add_marker(pytest.mark.nightly)


def affordable(smoke_s: float, limit_s: float) -> int:
    """Return how many of 100 other stories fit into the time of `hack/test`, 10 at least.

    smoke_s: what the smoke stories took; all other times are in proportion to it, as measured.
    """
    left_s = limit_s - UP_AND_DOWN_S - (1 + CHECKS_AND_KIND) * smoke_s
    return round(max(10, min(100, 100 * left_s / (OTHERS * smoke_s))))


def is_in_share(nodeid: str, percent: int, begin: int) -> bool:
    """Return if a story is among `percent` of 100 that begin at `begin`, on every machine alike."""
    return (zlib.crc32(nodeid.encode()) - begin) % 100 < percent


def rows(table: Iterable[str], nightly: Collection[str]) -> list[ParameterSet]:
    """Return the rows of a table as parameters; those that other stories hold, too, are nightly."""
    return [pytest.param(row, marks=pytest.mark.nightly if row in nightly else ()) for row in table]
