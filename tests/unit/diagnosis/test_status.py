"""`status`: what it makes of an agent's metrics."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from urllib.parse import quote, unquote

import pytest
import yaml
from click.testing import CliRunner

from karmada_vc_agent.cli import main
from karmada_vc_agent.diagnosis.status import hub_text, rows_of, written

AT = datetime(2026, 11, 23, 14, 3, 5, tzinfo=UTC)
NOW = datetime(2026, 11, 23, 15, 0, tzinfo=UTC)
CONTACT = "virtual_cluster_last_contact_timestamp_seconds"
METRICS = f"""\
# TYPE api_server_reachable gauge
api_server_reachable{{server="hub"}} REACHED
api_server_reachable{{server="host"}} 1
cluster_ready_state{{member_cluster="branch-a"}} 1
cluster_ready_node_number{{member_cluster="branch-a"}} 2
virtual_cluster_nodes{{member_cluster="branch-a"}} 3
virtual_cluster_works{{member_cluster="branch-a",state="applied"}} 5
virtual_cluster_works{{member_cluster="branch-a",state="failed"}} 1
virtual_cluster_works{{member_cluster="branch-a",state="waiting"}} 2
virtual_cluster_reports_accepted{{member_cluster="branch-a"}} 1
{CONTACT}{{member_cluster="branch-a",server="hub"}} {AT.timestamp()}
orphaned_objects{{member_cluster="branch-a"}} 4
virtual_cluster_nodes{{member_cluster="branch-b"}} 0
"""


def test_table_says_how_old_the_picture_is() -> None:
    away = written(rows_of(METRICS.replace("REACHED", "0")), "table", NOW).splitlines()
    head = "NAME READY NODES WORKS FAILED WAITING ORPHANED HUB"
    assert away[0].split() == head.split()
    assert away[1].startswith("branch-a   True ")
    assert away[1].split()[2:7] == ["2/3", "8", "1", "2", "4"]
    assert away[1].endswith("as of 14:03 UTC, hub not reached since")
    assert away[2].endswith("never reached")
    here = written(rows_of(METRICS.replace("REACHED", "1")), "table", NOW).splitlines()
    assert here[1].endswith("now")


def test_conditions_that_are_not_normal_are_below_the_table() -> None:
    metric = "virtual_cluster_condition_abnormal"
    text = METRICS.replace("REACHED", "1") + "".join(
        f'{metric}{{member_cluster="branch-b",condition="{name}"}} 1\n'
        for name in ("ObjectsOrphaned", "DeletionsHeld")
    )
    rows = rows_of(text)
    assert written(rows, "table", NOW).splitlines()[3:] == [
        "branch-b: DeletionsHeld, ObjectsOrphaned"
    ]
    found = json.loads(written(rows, "json", NOW))
    assert [each["abnormalConditions"] for each in found] == [
        [],
        ["DeletionsHeld", "ObjectsOrphaned"],
    ]


def test_what_the_hub_does_not_accept_is_as_old_as_what_it_does_not_get() -> None:
    text = METRICS.replace("REACHED", "1").replace(
        'accepted{member_cluster="branch-a"} 1', 'accepted{member_cluster="branch-a"} 0'
    )
    assert not rows_of(text)[0]["hub"]["reached"]


def test_an_older_time_has_its_date() -> None:
    later = datetime(2026, 11, 25, tzinfo=UTC)
    text = hub_text({"reached": False, "lastContact": AT.isoformat()}, later)
    assert text == "as of 2026-11-23 14:03 UTC, hub not reached since"


def test_json_and_yaml_have_the_same() -> None:
    rows = rows_of(METRICS.replace("REACHED", "0"))
    found = json.loads(written(rows, "json", NOW))
    assert found == yaml.safe_load(written(rows, "yaml", NOW))
    assert found[0]["hub"] == {"reached": False, "lastContact": "2026-11-23T14:03:05Z"}
    assert found[1]["ready"] is None


def test_agent_that_does_not_answer_is_one_line_with_what_to_do() -> None:
    result = CliRunner().invoke(main, ["status", "--metrics-url", "http://127.0.0.1:1/metrics"])
    assert result.exit_code == 1
    assert "kubectl -n NAMESPACE exec" in result.output


@pytest.mark.parametrize("url", ["x", "http://", "ftp://a"])
def test_address_that_is_none_is_refused(url: str) -> None:
    result = CliRunner().invoke(main, ["status", "--metrics-url", url])
    assert result.exit_code == 2
    assert f'--metrics-url: "{url}" is not a valid http(s) URL' in result.output


def test_address_that_python_refuses_is_one_line() -> None:
    result = CliRunner().invoke(main, ["status", "--metrics-url", "http://a b"])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)


@pytest.mark.parametrize("body", ["<html></html>", 'virtual_cluster_nodes{member_cluster="a"} NaN'])
def test_who_answers_and_is_no_agent_is_one_line(body: str, httpd: str) -> None:
    done = CliRunner().invoke(main, ["status", "--metrics-url", f"{httpd}/?{quote(body)}"])
    assert done.exit_code == 1
    assert "answers, but not with metrics of an agent; give another" in done.output


@pytest.fixture
def httpd() -> Iterator[str]:
    """Return the address of a server that says what the query is."""

    class Echo(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(unquote(self.path.partition("?")[2]).encode() + b"\n")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
