"""What /healthz and /readyz say."""

from karmada_vc_agent.telemetry.endpoints import Note, health_response

WELL = {"hub": None, "host": None}
ILL = {"hub": "does not answer", "host": None}


def test_all_well_is_ok() -> None:
    assert health_response("readyz", WELL) == (200, "ok")


def test_no_checks_but_the_ping_is_ok() -> None:
    assert health_response("healthz", {}) == (200, "ok")


def test_verbose_names_each_check() -> None:
    text = "[+]ping ok\n[+]hub ok\n[+]host ok\nreadyz check passed\n"
    assert health_response("readyz", WELL, verbose=True) == (200, text)


def test_failure_names_the_part_and_the_reason() -> None:
    text = "[+]ping ok\n[-]hub failed: does not answer\n[+]host ok\nreadyz check failed\n"
    assert health_response("readyz", ILL) == (500, text)


def test_excluded_check_does_not_count() -> None:
    status, text = health_response("readyz", ILL, exclude=["hub"], verbose=True)
    assert status == 200
    assert "[+]hub excluded: ok" in text


def test_one_check_can_be_requested() -> None:
    assert health_response("healthz", ILL, only="ping") == (200, "ok")
    assert health_response("readyz", ILL, only="host") == (200, "ok")
    status, text = health_response("readyz", ILL, only="hub")
    assert status == 500
    assert text == "[-]hub failed: does not answer\nreadyz check failed\n"


def test_unknown_check_returns_404() -> None:
    assert health_response("readyz", WELL, only="etcd") == (
        404,
        "unknown check etcd; must be one of ping, hub, host\n",
    )


def test_warning_is_shown_and_fails_nothing() -> None:
    checks = {"objects": Note("cannot read Work a")}
    assert health_response("readyz", checks) == (200, "ok")
    text = "[+]ping ok\n[+]objects ok: cannot read Work a\nreadyz check passed\n"
    assert health_response("readyz", checks, verbose=True) == (200, text)
