"""What /healthz and /readyz say."""

from karmada_vc_agent.telemetry.health import Remark, answer

WELL = {"hub": None, "host": None}
ILL = {"hub": "does not answer", "host": None}


def test_all_well_is_ok() -> None:
    assert answer("readyz", WELL) == (200, "ok")


def test_no_checks_but_the_ping_is_ok() -> None:
    assert answer("healthz", {}) == (200, "ok")


def test_verbose_names_each_check() -> None:
    text = "[+]ping ok\n[+]hub ok\n[+]host ok\nreadyz check passed\n"
    assert answer("readyz", WELL, verbose=True) == (200, text)


def test_failure_names_the_part_and_the_reason() -> None:
    text = "[+]ping ok\n[-]hub failed: does not answer\n[+]host ok\nreadyz check failed\n"
    assert answer("readyz", ILL) == (500, text)


def test_excluded_check_does_not_count() -> None:
    status, text = answer("readyz", ILL, exclude=["hub"], verbose=True)
    assert status == 200
    assert "[+]hub excluded: ok" in text


def test_one_check_can_be_asked_for() -> None:
    assert answer("healthz", ILL, only="ping") == (200, "ok")
    assert answer("readyz", ILL, only="host") == (200, "ok")
    status, text = answer("readyz", ILL, only="hub")
    assert status == 500
    assert text == "[-]hub failed: does not answer\nreadyz check failed\n"


def test_unknown_check_is_not_found() -> None:
    assert answer("readyz", WELL, only="etcd") == (
        404,
        "unknown check etcd; must be one of ping, hub, host\n",
    )


def test_remark_is_shown_and_fails_nothing() -> None:
    checks = {"objects": Remark("cannot read Work a")}
    assert answer("readyz", checks) == (200, "ok")
    text = "[+]ping ok\n[+]objects ok: cannot read Work a\nreadyz check passed\n"
    assert answer("readyz", checks, verbose=True) == (200, text)
