"""What hack/soak prints."""

from collections.abc import Iterator, Sequence

from e2e.soak.rounds import Round

_COLUMNS = "{:>7}  {:<11} {:<5} {:<6} {:>7} {:>9} {:>7} {:>8} {:>6} {:>7}"
HEADER = _COLUMNS.format(
    "at s", "fault", "side", "agent", "changes", "agreed s", "objects", "RSS MB", "files", "threads"
)


def line(one: Round) -> str:
    return _COLUMNS.format(
        f"{one.at_s:.0f}",
        one.fault,
        one.side,
        "killed" if one.is_killed else "lives",
        one.changes,
        f"{one.recovered_s:.1f}",
        one.objects,
        f"{one.held.rss_mb:.1f}",
        one.held.files,
        one.held.threads,
    )


def summary(found: Sequence[Round]) -> Iterator[str]:
    """Yield the table by fault, then what the process that lived longest came to hold."""
    yield f"{'fault':<12}{'rounds':>7}{'changes':>9}{'agreed after, median s':>24}{'longest s':>11}"
    for fault in sorted({one.fault for one in found}):
        mine = [one for one in found if one.fault == fault]
        took = sorted(one.recovered_s for one in mine)
        changes = sum(one.changes for one in mine)
        median = took[len(took) // 2]
        yield f"{fault:<12}{len(mine):>7}{changes:>9}{median:>24.1f}{took[-1]:>11.1f}"
    processes = [one.process for one in found]
    longest = max(processes, key=processes.count, default=0)
    mine = [one for one in found if one.process == longest]
    if len(mine) > 1:
        first, last = mine[0], mine[-1]
        yield (
            f"one process over {len(mine)} rounds, {last.at_s - first.at_s:.0f} s: "
            f"RSS {first.held.rss_mb:.1f} -> {last.held.rss_mb:.1f} MB, "
            f"files {first.held.files} -> {last.held.files}, "
            f"threads {first.held.threads} -> {last.held.threads}"
        )
    bad = [one for one in found if one.problem]
    kills = sum(one.is_killed for one in found)
    yield f"{len(found)} rounds, {kills} kills, {len(bad)} in which an invariant did not hold"
