#!/usr/bin/env python3
"""Plants one fault at a time into a copy of the crate and requires that the laws catch it.

A law that no fault can break protects nothing. Each fault is a change of one line that a tired hand could make: floor
for ceil, > for >=, a remainder lost. The laws run on the faulty copy, with fewer random histories than usual; if they
pass, or if a fault no longer fits the code, this script fails.

    scripts/planted_faults.py              all faults
    scripts/planted_faults.py wait float   those with one of these words in their names
    scripts/planted_faults.py --list       their names

The copy and what is built from it stay in target/planted-faults, so that the next fault, and the next run, build fast.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "target" / "planted-faults"
COPY = PLACE / "crate"
HISTORIES = "15"
LONGEST_S = 1200


@dataclass(frozen=True)
class Fault:
    """A line of a file, behind the first line that contains `behind`, and what becomes of it."""

    name: str
    file: str
    behind: str
    old: str
    new: str


FAULTS = [
    Fault(
        "floor for ceil: a bucket's wait is rounded down",
        "src/engine/rate.rs",
        "pub fn time_ceil(",
        "whole.saturating_add(i64::from(rest > 0))",
        "whole",
    ),
    Fault(
        "ceil for floor: a bucket's remaining units are rounded up",
        "src/engine/bucket.rs",
        "fn room(",
        "debt.left_of(self.capacity).whole",
        "debt.left_of(self.capacity).whole + i64::from(debt.numerator > 0)",
    ),
    Fault(
        ">= for >: a call that just fits a bucket is refused",
        "src/engine/bucket.rs",
        "pub fn decide(",
        "missing > 0 ||",
        "missing >= 0 ||",
    ),
    Fault(
        "lost remainder: the fraction of a unit is not stored",
        "src/engine/rate.rs",
        "pub fn amount(",
        "numerator: rest.cast_signed()",
        "numerator: (rest - rest).cast_signed()",
    ),
    Fault(
        "float: what time gives back is computed in double precision",
        "src/engine/rate.rs",
        "pub fn given_back(",
        "product(span.us().cast_unsigned(), self.units)",
        "(span.us() as f64 * self.units.get() as f64) as Shares",
    ),
    Fault(
        "64 bits: a product of units and period wraps",
        "src/engine/rate.rs",
        "pub fn of_units(",
        "product(units, self.period_us)",
        "Shares::from((units as i64).wrapping_mul(self.period_us()))",
    ),
    Fault(
        "rounding for the caller: a level's fraction under another period",
        "src/engine/rate.rs",
        "pub fn of_amount_ceil(",
        "self.of_amount(amount, true)",
        "self.of_amount(amount, false)",
    ),
    Fault(
        "closed window: a fixed window still counts at its end",
        "src/engine/fixed.rs",
        "fn books(",
        "end.is_some_and(|end| end <= now)",
        "end.is_some_and(|end| end < now)",
    ),
    Fault(
        "wrong step: one unit for every admission",
        "src/engine/fixed.rs",
        "fn take(",
        "books.used.saturating_add(added)",
        "books.used.saturating_add(added.min(1))",
    ),
    Fault(
        "mending forgotten: a fixed window that ends too late",
        "src/engine/fixed.rs",
        "fn books(",
        "if self.is_too_late(end, now) =>",
        "if self.is_too_late(end, now) && used > SHUT =>",
    ),
    Fault(
        "mending too eager: a calendar window that ends with the next one",
        "src/engine/fixed.rs",
        "fn is_too_late(",
        "aligned_end(self.period, self.align, aligned_end(self.period, self.align, now))",
        "aligned_end(self.period, self.align, now)",
    ),
    Fault(
        "shut again: every refusal prolongs BLOCK",
        "src/engine/fixed.rs",
        "fn decide(",
        ".filter(|_| used < SHUT)",
        ".filter(|_| used <= u64::MAX)",
    ),
    Fault(
        "a look that shuts: PEEK heeds BLOCK",
        "src/engine/mod.rs",
        "pub const fn without_block(",
        "fixed.block = None;",
        "let _ = &fixed.block;",
    ),
    Fault(
        "weeks from Thursday",
        "src/engine/calendar.rs",
        "const DAY_MS",
        "const MONDAY_MS: i64 = -3 * DAY_MS;",
        "const MONDAY_MS: i64 = 0 * DAY_MS;",
    ),
    Fault(
        "time to live too short: rounded down to a millisecond",
        "src/engine/time.rs",
        "pub const fn is_after(",
        "self.0.saturating_mul(US_PER_MS) >= now.0.saturating_add(span.0)",
        "self.0 >= now.0.saturating_add(span.0) / US_PER_MS",
    ),
    Fault(
        "time to live too short: a debt under slower numbers outlives its key",
        "src/engine/mod.rs",
        "fn lasts(",
        "expiry.is_after(now, needed) ||",
        "expiry >= now.floor_ms() ||",
    ),
    Fault(
        "a trace: refusals prolong a key that means nothing any more",
        "src/engine/mod.rs",
        "pub fn moved_expiry(",
        "if needed == Span::ZERO ||",
        "if needed == Span::MAX ||",
    ),
    Fault(
        "refund beyond untouched",
        "src/engine/bucket.rs",
        "pub fn refund(",
        "cost.min(u64::try_from(rate.amount(self.owed).ceil()).unwrap_or(0))",
        "cost",
    ),
    Fault(
        "refund of a fraction: it does not count as a unit",
        "src/engine/bucket.rs",
        "pub fn refund(",
        "cost.min(u64::try_from(rate.amount(self.owed).ceil()).unwrap_or(0))",
        "cost.min(u64::try_from(rate.amount(self.owed).whole).unwrap_or(0))",
    ),
    Fault(
        "debt without end: a charge may go to three times the capacity",
        "src/engine/bucket.rs",
        "pub fn charge(",
        ".min(full * 2)",
        ".min(full * 3)",
    ),
    Fault(
        "capacity cut forgotten: a bucket overflows",
        "src/engine/bucket.rs",
        "pub fn debt(",
        "(owed_then - worked_off).max(0)",
        "(owed_then - worked_off)",
    ),
    Fault(
        "mending forgotten: a bucket's instant from the future",
        "src/engine/bucket.rs",
        "fn mend_for(",
        "if stored.at > self.now {",
        "if stored.at > self.now.plus(Span::MAX) {",
    ),
    Fault(
        "PARTIAL grants what there is not",
        "src/engine/mod.rs",
        "pub fn granted(",
        "self.cost.min(room)",
        "self.cost",
    ),
    Fault(
        "WITHIN forgotten: a turn that comes too late is booked",
        "src/engine/bucket.rs",
        "pub fn decide(",
        "|| early > Span::ZERO",
        "|| early > Span::MAX",
    ),
    Fault(
        "wait off by one: a log waits for the wrong entry",
        "src/engine/sliding.rs",
        "pub fn leaving_index(",
        ".checked_sub(1)",
        ".checked_sub(0)",
    ),
    Fault(
        "ID forgotten: a repeated request is charged again",
        "src/engine/sliding.rs",
        "fn decide(",
        "if log.seen {",
        "if log.seen && log.live > self.limit {",
    ),
    Fault(
        "mending forgotten: a log's entries from the future",
        "src/engine/sliding.rs",
        "fn mend(",
        "if log.future > 0 {",
        "if log.future > u64::MAX - 1 {",
    ),
    Fault(
        "work without bound: a call mends a log at once",
        "src/engine/sliding.rs",
        "fn mend(",
        "mend: log.future.min(cost + SWEEP)",
        "mend: log.future",
    ),
    Fault(
        "a log that only grows: an admission trims less than it adds",
        "src/engine/sliding.rs",
        "fn add(",
        "log.dead.min(cost + TRIM)",
        "log.dead.min(cost.saturating_sub(TRIM))",
    ),
    Fault(
        "sub-windows forgotten too early",
        "src/engine/buckets.rs",
        "fn present_end(",
        "now.get().rem_euclid(step) + step",
        "now.get().rem_euclid(step)",
    ),
    Fault(
        "sub-windows of the future kept",
        "src/engine/buckets.rs",
        "fn live(",
        "self.period.part_ceil_ms(2)",
        "self.period.part_ceil_ms(1)",
    ),
    Fault(
        "one lease too many",
        "src/engine/lease.rs",
        "pub fn decide(",
        "holders.live < self.limit",
        "holders.live <= self.limit",
    ),
    Fault(
        "time to live too short: of leases only the caller's counts",
        "src/engine/lease.rs",
        "pub fn decide(",
        "|other| other.max(end)",
        "|_| end",
    ),
    Fault(
        "the shortest wait for the longest: RL.ALL",
        "src/commands/reply.rs",
        "pub fn whole(",
        "longest.max(wait)",
        "if longest == 0 { wait } else { longest.min(wait) }",
    ),
    Fault(
        "cap forgotten: a wait of more than fifteen digits",
        "src/commands/reply.rs",
        "pub fn ms(",
        "span.ceil_ms().min(LONGEST_MS)",
        "span.ceil_ms()",
    ),
    Fault(
        "a second member form: ids count from one",
        "src/storage/record.rs",
        "pub fn id_member(",
        "index / place % 10",
        "(index + 1) / place % 10",
    ),
]


def planted(fault: Fault, text: str) -> str:
    """The text of the file with the fault in it."""
    start = text.find(fault.behind)
    if start < 0:
        raise ValueError(f"{fault.file} has no `{fault.behind}`")
    place = text.find(fault.old, start)
    if place < 0:
        raise ValueError(f"{fault.file} has no `{fault.old}` behind `{fault.behind}`")
    if re.search(r"^\s*(pub )?(const )?fn ", text[start + len(fault.behind) : place], re.MULTILINE):
        raise ValueError(f"`{fault.old}` is not in the same function as `{fault.behind}`")
    return text[:place] + fault.new + text[place + len(fault.old) :]


def refresh() -> None:
    """Makes the copy what the project is now, leaving alone what did not change, so that it is not built again."""
    COPY.mkdir(parents=True, exist_ok=True)
    wanted = set()
    for name in ("Cargo.toml", "Cargo.lock", "src", "tests", "benches", "examples"):
        source = ROOT / name
        if not source.exists():
            continue
        files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
        for file in files:
            if "node_modules" in file.parts or "__pycache__" in file.parts:
                continue
            target = COPY / file.relative_to(ROOT)
            wanted.add(target)
            if not target.exists() or target.read_bytes() != file.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    for path in [path for path in COPY.rglob("*") if path.is_file() and path not in wanted]:
        path.unlink()


@dataclass(frozen=True)
class Outcome:
    """What the laws said: whether they were built, which of them failed, and what else there is to read."""

    built: bool
    broken: list[str]
    passed: bool
    output: str


def laws() -> Outcome:
    """Builds the copy and runs its laws."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(PLACE / "build"), "RL_HISTORIES": HISTORIES}
    environment["RUST_BACKTRACE"] = "0"
    build = ["cargo", "test", "--lib", "--quiet", "--no-run"]
    built = subprocess.run(build, cwd=COPY, env=environment, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        return Outcome(False, [], False, built.stdout + built.stderr)
    run = ["cargo", "test", "--lib", "--quiet", "laws::", "--", "--skip", "laws::model", "--format", "pretty"]
    process = subprocess.Popen(
        run, cwd=COPY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return Outcome(True, ["no end in sight"], False, output)
    broken = sorted(set(re.findall(r"^\s+(laws::\S+)$", output, re.MULTILINE)))
    return Outcome(True, broken, process.returncode == 0, output)


def short(broken: list[str]) -> str:
    """The names of the laws that failed: the first, and how many more."""
    names = [name.split("::")[-1] for name in broken]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return names[0] + more


def check(fault: Fault) -> tuple[bool, str]:
    """Whether a fault is caught, and by what."""
    path = COPY / fault.file
    clean = path.read_text()
    try:
        faulty = planted(fault, clean)
    except ValueError as error:
        return False, f"DOES NOT FIT: {error}"
    path.write_text(faulty)
    try:
        outcome = laws()
    finally:
        path.write_text(clean)
    if not outcome.built:
        return False, "DOES NOT BUILD:\n" + outcome.output[-2000:]
    if outcome.passed:
        return False, "NOT CAUGHT"
    if not outcome.broken:
        return False, "failed, but no law did:\n" + outcome.output[-2000:]
    return True, short(outcome.broken)


def main() -> int:
    """Plants the faults and prints a table."""
    parser = argparse.ArgumentParser(description="Plants faults into a copy of the crate; the laws must catch each.")
    parser.add_argument("words", nargs="*", help="plant only the faults with one of these words in their names")
    parser.add_argument("--list", action="store_true", help="list the faults and stop")
    arguments = parser.parse_args()
    chosen = [fault for fault in FAULTS if not arguments.words or any(word in fault.name for word in arguments.words)]
    if arguments.list or not chosen:
        print("\n".join(fault.name for fault in chosen) or "no fault has such a name")
        return 0 if chosen else 2
    refresh()
    begun = time.monotonic()
    sound = laws()
    if not sound.passed:
        print(sound.output[-4000:], file=sys.stderr)
        print("the laws fail without any fault: nothing can be shown", file=sys.stderr)
        return 2
    print(f"the laws hold without a fault ({time.monotonic() - begun:.0f} s)", flush=True)
    missed = 0
    for fault in chosen:
        begun = time.monotonic()
        caught, by = check(fault)
        missed += not caught
        print(f"{fault.name:<75} {by} ({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
