"""One script in its sandbox: what it can reach, what it may return, what comes out."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from karmada_vc_agent.interpretation import script_helper
from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    HookError,
)
from karmada_vc_agent.model.objects import Object

LIVE: Object = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"replicas": 3, "ratio": 0.5, "empty": {}, "none": [], "nothing": None},
    "status": {"ready": 2, "conditions": [{"type": "Ready", "status": "True"}]},
}
ZONE = timezone(timedelta(hours=2), "CEST")


def now() -> datetime:
    return datetime(2026, 5, 4, 13, 2, 1, tzinfo=ZONE)


def reflect(body: str) -> Any:
    """Run the body of ReflectStatus(o)."""
    script = f"function ReflectStatus(o) {body} end"
    return script_helper.run_script(script, INTERPRET_STATUS, [LIVE], now)


def value(expression: str) -> Any:
    """Return what an expression is, in a script."""
    return reflect(f"return {{v = {expression}}}").get("v")


# --- what a script can reach -----------------------------------------------------------------

ALLOWED = frozenset(
    (
        *("_G", "_VERSION", "assert", "error", "ipairs", "math", "next", "os", "package", "pairs"),
        *("pcall", "print", "require", "select", "string", "table", "tonumber", "tostring"),
        *("type", "unpack", "xpcall"),
    )
)
REFUSED = frozenset(
    (
        *("collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring"),
        *("module", "newproxy", "rawequal", "rawget", "rawset", "setfenv", "setmetatable"),
    )
)


def test_the_globals_are_those_of_the_contract_and_no_more() -> None:
    names = reflect("local t = {} for k in pairs(_G) do t[#t + 1] = k end return {names = t}")
    assert set(names["names"]) == ALLOWED | REFUSED | {"ReflectStatus"}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refused_function_raises(name: str) -> None:
    with pytest.raises(HookError, match=f"{name} is not available"):
        reflect(f"{name}() return {{}}")


@pytest.mark.parametrize("name", ["gsub", "rep", "dump"])
def test_a_refused_string_function_raises_also_as_a_method(name: str) -> None:
    with pytest.raises(HookError, match=f"string.{name} is not available"):
        reflect(f"string.{name}('a', 'b', 'c') return {{}}")
    with pytest.raises(HookError, match=f"string.{name} is not available"):
        reflect(f"return {{v = ('a'):{name}('b', 'c')}}")


@pytest.mark.parametrize(
    "path",
    [
        *("python", "io", "debug", "coroutine", "channel", "gcinfo"),
        *("os.execute", "os.getenv", "os.remove", "os.exit", "os.tmpname", "os.clock"),
        *("package.path", "package.cpath", "package.seeall", "package.loaded.io"),
        *("package.loaded.debug", "package.loaded.python", "package.loaders[1]"),
        *("table.foreach", "_G._G.python", "string.__index"),
    ],
)
def test_what_is_not_in_the_contract_is_not_there(path: str) -> None:
    assert value(f"type({path})") == "nil"


@pytest.mark.parametrize("name", ["io", "os.execute", "debug", "python", "lupa", "nothing"])
def test_require_finds_no_other_module(name: str) -> None:
    with pytest.raises(HookError, match="there is no module"):
        reflect(f"require('{name}') return {{}}")


def test_loadlib_is_refused() -> None:
    with pytest.raises(HookError, match="loadlib is not available"):
        reflect("package.loadlib('/lib/x86_64-linux-gnu/libc.so.6', 'system') return {}")


def test_module_that_the_script_preloads_is_available() -> None:
    body = "package.preload.mine = function() return {v = 7} end return require('mine')"
    assert reflect(body) == {"v": 7}


def test_compiled_code_is_refused() -> None:
    with pytest.raises(HookError, match="compiled code"):
        script_helper.run_script("\x1bLuaQ", INTERPRET_STATUS, [LIVE], now)


def test_no_value_of_a_script_is_an_object_of_python() -> None:
    """Walk all that is reachable, also errors of our own functions: no userdata anywhere."""
    walk = """
        local kube = require('kube')
        local seen, found = {}, {}
        local function walk(v, path)
          if type(v) == 'userdata' then found[#found + 1] = path end
          if type(v) ~= 'table' or seen[v] then return end
          seen[v] = true
          for k, i in pairs(v) do walk(i, path .. '.' .. tostring(k)) walk(k, path) end
        end
        walk(_G, '_G') walk(kube, 'kube')
        local failing = {
          kube.resourceAdd, kube.getResourceQuantity, kube.accuratePodRequirements,
          kube.getPodDependencies, string.format, string.lower, os.date, os.time, tostring,
        }
        for i, f in pairs(failing) do
          for _, a in pairs({'x', 'é', 1e308, true, {}, print, '%99999999d', '-1'}) do
            walk({pcall(f, a)}, 'result ' .. i)
            walk({pcall(f, a, a)}, 'result ' .. i)
            xpcall(function() f(a) end, function(e) walk(e, 'handler ' .. i) end)
          end
        end
        return {found = found, ok = true}
    """
    assert reflect(walk) == {"ok": True}


def test_a_run_leaves_nothing_to_the_next() -> None:
    script_helper.run_script(
        "left = 1 string.left = 2 package.loaded.kube = 3 function string.find() return 9 end "
        "function ReflectStatus() return {} end",
        INTERPRET_STATUS,
        [LIVE],
        now,
    )
    body = "return {v = {type(left), type(string.left), type(require('kube')), ('ab'):find('b')}}"
    assert reflect(body)["v"] == ["nil", "nil", "table", 2, 2]


def test_a_script_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_ = script_helper._compile

    def note(program: bytes, name: bytes) -> bytes:
        compiled.append(program)
        return compile_(program, name)

    monkeypatch.setattr(script_helper, "_compile", note)
    body = "return {v = 'test_a_script_is_compiled_once'}"
    assert reflect(body) == reflect(body)
    assert [program for program in compiled if body.encode() in program] == [
        f"function ReflectStatus(o) {body} end".encode()
    ]


def test_of_compiled_scripts_only_so_much_is_kept() -> None:
    kept: Any = script_helper._compiled.cache
    for number in range(8):
        body = f"local s = '{'x' * (script_helper.COMPILED_BYTES // 4)}' return {{v = {number}}}"
        assert reflect(body) == {"v": number}
    assert 0 < kept.currsize <= script_helper.COMPILED_BYTES
    huge = f"local s = '{'x' * script_helper.COMPILED_BYTES}' return {{v = 1}}"
    assert [reflect(huge), reflect(huge)] == [{"v": 1}, {"v": 1}]
    assert kept.currsize <= script_helper.COMPILED_BYTES


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return }", r"^<string>:1: unexpected symbol near '}'$"),
        ("\n return o.spec.absent.name", r"^<string>:2: attempt to index field 'absent'"),
        ("error('no')", r"^<string>:1: no$"),
    ],
)
def test_an_error_is_the_same_at_each_run(body: str, problem: str) -> None:
    for _ in range(3):
        with pytest.raises(HookError, match=problem):
            reflect(body)


def test_the_objects_handed_in_are_not_changed() -> None:
    before = repr(LIVE)
    reflect("o.spec.replicas = 9 return o")
    assert repr(LIVE) == before


# --- limits ----------------------------------------------------------------------------------


def test_a_memory_bomb_is_an_error() -> None:
    with pytest.raises(script_helper.OutOfMemoryError, match="memory"):
        reflect("local t = {} while true do t[#t + 1] = {} end")


def test_a_deep_recursion_is_an_error() -> None:
    with pytest.raises(HookError, match="stack overflow"):
        reflect("local function f() return 1 + f() end return f()")


@pytest.mark.parametrize("name", ["byte", "find", "match", "lower", "upper", "reverse", "sub"])
def test_a_string_above_a_million_bytes_is_refused_by_the_string_library(name: str) -> None:
    grow = "local s = 'x' for i = 1, 20 do s = s .. s end"
    with pytest.raises(HookError, match="longer than the string library takes"):
        reflect(f"{grow} string.{name}(s, 'x') return {{}}")


def test_a_format_of_enormous_width_is_an_error() -> None:
    with pytest.raises(HookError, match="width"):
        reflect("return {v = string.format('%999999999d', 1)}")
    with pytest.raises(HookError, match="more than"):
        reflect(f"return {{v = string.format('{'%999999d' * 18}', {'1, ' * 17}1)}}")


# --- arguments and results -------------------------------------------------------------------


def test_numbers_are_floats_and_nulls_are_absent() -> None:
    assert value("o.spec.replicas / 2") == 1.5
    assert value("type(o.spec.nothing)") == "nil"


def test_whole_floats_come_back_as_integers() -> None:
    answer = reflect("return {a = 6 / 2, b = 0.25, c = 2 ^ 53, d = -7, e = 1e21}")
    assert answer == {"a": 3, "b": 0.25, "c": 2**53, "d": -7, "e": 1e21}
    assert [type(answer[key]) for key in "abcde"] == [int, float, int, int, float]


def test_a_reflected_status_loses_its_empty_tables() -> None:
    assert reflect("return {}") == {}
    assert reflect("return {a = {}, b = {c = {}}, d = {1, {}, {e = {}}}}") == {
        "b": {},
        "d": [1, {}],
    }


def test_a_retained_object_gets_its_empty_values_back_as_they_were() -> None:
    desired = {
        "kind": "Widget",
        "spec": {"map": {}, "list": [], "items": [{"inner": {}}, {"inner": {}}], "a.b": {}},
    }
    live = {"kind": "Widget", "spec": {"fromLive": {}, "deep": {"list": []}}}
    script = """
        function Retain(desired, live)
          desired.spec.fromLive = live.spec.fromLive
          desired.spec.deep = live.spec.deep
          desired.spec.invented = {}
          desired.spec.items[3] = {inner = {}, own = {}}
          return desired
        end
    """
    assert script_helper.run_script(script, RETAIN, [desired, live], now) == {
        "kind": "Widget",
        "spec": {
            "map": {},
            "list": [],
            "items": [{"inner": {}}, {"inner": {}}, {"inner": {}}],
            "a.b": {},
            "fromLive": {},
            "deep": {"list": []},
        },
    }


def test_text_that_is_not_utf_8_is_replaced() -> None:
    assert value("string.char(97, 255, 98)") == "a\ufffdb"


def test_control_characters_and_quotes_survive() -> None:
    assert value(r"'a\0b\n\"\\\127'") == 'a\0b\n"\\\x7f'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return nil", "ReflectStatus returned nil, not a table"),
        ("return 'x'", "returned string, not a table"),
        ("return {1, 2}", "returned a list"),
        ("return {a = print}", "a function has no JSON"),
        ("return {1, nil, 3}", "gaps"),
        ("return {1, a = 2}", "mixed"),
        ("return {[true] = 1}", "mixed"),
        ("return {a = 0 / 0}", "not finite"),
        ("local t = {} t.t = t return t", "occurs twice"),
        ("local t = {} return {a = t, b = t}", "occurs twice"),
        ("error('on purpose')", "on purpose"),
        ("error({code = 1})", "table: "),
        ("return o.nothing.deeper", "attempt to index"),
    ],
)
def test_a_wrong_result_or_an_error_is_said(body: str, reason: str) -> None:
    with pytest.raises(HookError, match=reason):
        reflect(body)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("", "defines no function InterpretHealth"),
        ("InterpretHealth = 3", "InterpretHealth is a number, no function"),
        ("function InterpretHealth( ", "expected"),
        ("error('at once')", "at once"),
        ("function InterpretHealth() return nil end", "returned nil, not a boolean"),
        ("function InterpretHealth() return 'true' end", "returned string, not a boolean"),
    ],
)
def test_a_script_without_a_health_is_an_error(script: str, reason: str) -> None:
    with pytest.raises(HookError, match=reason):
        script_helper.run_script(script, INTERPRET_HEALTH, [LIVE], now)


@pytest.mark.parametrize("ready", [1, 2])
def test_health_is_what_the_script_says(ready: int) -> None:
    script = f"function InterpretHealth(o) return o.status.ready >= {ready + 1} end"
    assert script_helper.run_script(script, INTERPRET_HEALTH, [LIVE], now) is (ready == 1)


def test_a_retained_object_without_a_kind_is_an_error() -> None:
    script = "function Retain(desired, live) return {} end"
    with pytest.raises(HookError, match="no kind"):
        script_helper.run_script(script, RETAIN, [LIVE, LIVE], now)


# --- libraries -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("tostring(3)", "3"),
        ("tostring(2 ^ 60)", "1152921504606846976"),
        ("tostring(0.1)", "0.1"),
        ("tostring(1 / 3)", "0.3333333333333333"),
        ("tostring(1e-7)", "1e-07"),
        ("tostring(1 / 0)", "+Inf"),
        ("tostring(true)", "true"),
        ("tonumber('12') + tonumber('0x10') + tonumber('1.5e1')", 43),
        ("tostring(tonumber('1e2')) .. tostring(tonumber('inf'))", "nilnil"),
        ("string.format('%d of %s', 3.9, 'five')", "3 of five"),
        ("string.format('%5.2f|%-4s|%04d|%+d', 1.005, 'ab', 42, 7)", " 1.00|ab  |0042|+7"),
        ("string.format('%g %g', 0.1, 123456789)", "0.1 1.23456789e+08"),
        ("string.format('%s %s %s', nil, true, 2.5)", "nil true 2.5"),
        ("string.format('%x %X %c %%', 255, 255, 65)", "ff FF A %"),
        ("string.format('%q', 'a\"b')", '"a\\"b"'),
        ("string.format('%s')", "%!s(MISSING)"),
        ("('x'):len() + #'ab'", 3),
        ("('É'):lower()", "é"),
        ("('abc'):upper()", "ABC"),
        ("('a,b'):find(',')", 2),
        ("('abc'):find('', 3)", 1),
        ("('k=v'):match('=(.*)')", "v"),
        ("select('#', unpack({1, 2, 3}))", 3),
        ("table.concat({'a', 'b'}, '-')", "a-b"),
        ("math.max(1, 5, 3)", 5),
        ("select(2, pcall(error, 'x'))", "x"),
        ("os.time()", 1777892521),
        ("os.time({year = 2026, month = 5, day = 4, hour = 13, min = 2, sec = 1})", 1777892521),
        ("os.time({year = 2026, month = 5, day = 4})", 1777892521 - 3721),
        ("os.date('%Y-%m-%d %H:%M:%S %z')", "2026-05-04 13:02:01 +0200"),
        ("os.date('!%H:%M')", "11:02"),
        ("os.date('%F %p %w %Q')", "2026-05-04 PM 1 %Q"),
        ("os.date('%X', 0)", "02:00:00"),
        ("os.date('*t').wday", 2),
        ("os.date('*t').hour", 13),
    ],
)
def test_the_libraries_answer_as_karmadas_do(expression: str, expected: object) -> None:
    assert value(expression) == expected


def test_print_takes_anything_and_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert reflect("print('x', nil, {}) return {v = 1}") == {"v": 1}
    assert capfd.readouterr().out == ""


def test_absent_parts_of_a_time_count_as_minus_one() -> None:
    """As Karmada has it: no month is month -1, so the year before; no year is the year -1."""
    assert (
        value("os.time({year = 2020, hour = 0})") == datetime(2019, 10, 30, tzinfo=ZONE).timestamp()
    )
    assert value("os.time({})") < -62_000_000_000


KUBE = "local kube = require('kube') "


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("kube.resourceAdd('100m', '1', nil)", "1100m"),
        ("kube.resourceAdd()", "0"),
        ("kube.resourceAdd('1Gi', '512Mi')", "1536Mi"),
        ("kube.resourceAdd(nil, '1Gi')", "1Gi"),
        ("kube.getResourceQuantity('1500m')", 1.5),
        ("kube.getResourceQuantity('2Gi')", 2**31),
        ("kube.getResourceQuantity(nil)", 0),
    ],
)
def test_quantities_are_counted_as_kubernetes_counts(call: str, expected: object) -> None:
    assert reflect(f"{KUBE} return {{v = {call}}}") == {"v": expected}


@pytest.mark.parametrize(
    "call",
    [
        "kube.resourceAdd('x')",
        "kube.resourceAdd(3)",
        "kube.resourceAdd({})",
        "kube.getResourceQuantity('-1')",
        "kube.getResourceQuantity()",
        "kube.getResourceQuantity('1', '2')",
        "kube.accuratePodRequirements({})",
        "kube.getPodDependencies({}, 'shop')",
    ],
)
def test_a_wrong_argument_of_a_kube_function_is_an_error(call: str) -> None:
    with pytest.raises(HookError):
        reflect(f"{KUBE} return {{v = {call}}}")


def test_utc_is_the_zone_of_a_date_with_an_exclamation_mark() -> None:
    moment = datetime(2026, 5, 4, 23, 30, tzinfo=UTC)
    script = "function ReflectStatus() return {v = os.date('!%d %H:%M')} end"
    assert script_helper.run_script(
        script, INTERPRET_STATUS, [LIVE], lambda: moment.astimezone(ZONE)
    ) == {"v": "04 23:30"}
