"""One run of the certification, from the command line's wishes to files and an exit code."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hal.certify import causes
from hal.certify import results as outcome
from hal.certify.choice import selector
from hal.certify.examine import examine
from hal.certify.preflight import Preflight, preflight
from hal.certify.progress import Progress
from hal.certify.suite import (
    check_suite,
    paths_of,
    read_required,
    required_hash,
    suite_folder,
    suite_hash,
)
from hal.certify.supervisor import SERVER, Collected, Job, Supervisor
from hal.certify.verdict import Verdict, derive
from hal.errors import HalError, UsageError

if TYPE_CHECKING:
    from hal.testing.session import Target

__all__ = ["Options", "Run", "certify", "list_cases", "settings_in"]

DEVICE_LOST_LIMIT = 3
QUICK_SHARE = 10


@dataclass
class Options:
    """What the user asked for; the names are those of the command line."""

    port: str = ""
    tier: int = 1
    hcd: str = ""
    device: int | None = None
    select: str = ""
    rerun_failed: Path | None = None
    resume: Path | None = None
    isolation: str = "case"
    jobs: int = 0
    seed: int = 0
    nonce: str = ""
    budget: float = 0.0
    shuffle: bool = False
    quick: bool = False
    out: Path | None = None
    quiet: bool = False
    suite: Path = field(default_factory=suite_folder)
    server: Sequence[str] = SERVER

    @property
    def workers(self) -> int:
        """Children at once; default one per core that this process may use."""
        return self.jobs or len(os.sched_getaffinity(0))


@dataclass
class Run:
    """A finished run and all that the outputs need.

    Attributes:
        settings: What decides the results; equal settings make a run resumable.
        required: Ids of the required list.
        cases: The suite's cases by id.
        preflight: The first look at the port.
        flat: The device's resolved HCD by path.
        verdict: What may be said.
        environment: Machine, versions, times.
        exit_code: The process's exit status.
    """

    options: Options
    target: Target
    out: Path
    settings: dict[str, Any]
    required: list[str]
    cases: dict[str, Collected]
    preflight: Preflight
    flat: dict[str, str]
    hcd_hash: str = ""
    verdict: Verdict = field(default_factory=lambda: Verdict("INCOMPLETE"))
    environment: dict[str, Any] = field(default_factory=dict)
    void: list[str] = field(default_factory=list)
    exit_code: int = 3
    device_lost: bool = False
    interrupted: bool = False

    @property
    def results_path(self) -> Path:
        """Where the results are."""
        return self.out / "results.jsonl"

    def results(self) -> list[dict[str, Any]]:
        """Return the final result of each case, as read from the file."""
        return list(outcome.latest(outcome.read(self.results_path).results).values())


def certify(options: Options) -> Run:
    """Certify a port; every file but the reports is written when this returns.

    Raises:
        UsageError, HcdError: the wish makes no sense (exit code 2).
        HarnessError: the suite cannot be believed (exit code 3).
    """
    _check(options)
    started = time.time()
    with Supervisor(
        options.suite,
        paths_of(options.suite, options.tier),
        jobs=options.workers,
        server=options.server,
    ) as supervisor:
        target, found, flat, hash_ = look(options)
        cases = supervisor.collect()
        required = read_required(options.suite, options.tier)
        check_suite(cases, required, options.suite)
        run = _prepare(options, target, required, cases, found, flat, hash_)
        run.environment["started"] = started
        examine(supervisor, [case for case in cases if case.is_control])
        if found.is_good:
            _run_cases(run, supervisor)
        else:
            _run_nothing(run)
        _check_clock(run, supervisor)
    run.environment["seconds"] = round(time.time() - started, 3)
    _judge(run)
    return run


def look(options: Options) -> tuple[Target, Preflight, dict[str, str], str]:
    """Find the port, look at it, and return it with its flat HCD and the HCD's hash.

    `options.device` is filled in when the port's name gave it.

    Raises:
        UsageError, HcdError: there is no such port, or its HCD is wrong.
    """
    from hal.testing.target import find

    target = find(options.port, hcd=options.hcd)
    if options.device is None:
        options.device = target.index
    found = preflight(target, options.device, _keys())
    count = int(found.facts.get("device_count", 0))
    if 0 < count <= options.device:
        have = "1 device, number 0" if count == 1 else f"{count} devices, 0 to {count - 1}"
        raise UsageError(
            f"--device {options.device}: the port has {have}",
            call="hal-certify",
            next_step="'hal devices' lists them.",
        )
    flat, hash_, problem = _describe(target, found)
    found.problem = found.problem or problem
    return target, found, flat, hash_


def _check(options: Options) -> None:
    """Refuse wishes that contradict each other."""
    if options.device is not None and options.device < 0:
        raise UsageError(f"--device {options.device}: devices count from 0", call="hal-certify")
    if options.jobs < 0:
        raise UsageError(f"--jobs {options.jobs}: at least 1", call="hal-certify")
    _group_size(options.isolation)
    try:
        bytes.fromhex(options.nonce)
    except ValueError:
        raise UsageError(
            f"--nonce {options.nonce!r} is not hexadecimal", call="hal-certify"
        ) from None
    if options.resume and (options.select or options.rerun_failed or options.quick):
        raise UsageError(
            "--resume goes on with the same cases; it takes no --select, --rerun-failed or --quick",
            call="hal-certify",
        )
    if options.select:
        selector(options.select)


def _group_size(isolation: str) -> int:
    """Return how many cases share a child; 1 for `case`."""
    if isolation == "case":
        return 1
    word, _, number = isolation.partition(":")
    if word != "group" or not number.isdigit() or int(number) < 1:
        raise UsageError(
            f"--isolation {isolation!r}: use case, or group:N with N cases per process",
            call="hal-certify",
        )
    return int(number)


def _keys() -> list[str]:
    """Return what every port must answer at run time: numbers, features, types."""
    from hal.hcd.schema import leaves
    from hal.testing.abi import Dtype

    own = ("memory_bytes", "offset_alignment_bytes", "argument_limit", "stream_limit")
    features = [path for path, _, _ in leaves("chip") if path.startswith("features.")]
    types = [f"dtypes.{dtype.name.lower()}.compute" for dtype in Dtype]
    return [*(f"device.{name}" for name in own), *features, *types]


def _describe(target: Target, found: Preflight) -> tuple[dict[str, str], str, str]:
    """Return the device's flat HCD by path, its hash, and why there is none."""
    from hal.testing.session import flat_values
    from hal.testing.target import describe

    reference = found.facts.get("hcd.ref") or ""
    overlay = found.facts.get("hcd.overlay") or ""
    if not reference and not target.hcd_text:
        return {}, "", "" if found.problem else "no HCD is known: the port names none, give --hcd"
    try:
        hcd = describe(target, reference, overlay)
    except HalError as error:
        return {}, "", f"the HCD of hcd.ref {reference!r} is not usable: {error}"
    return flat_values(hcd.flat().decode()), hcd.sha256, ""


def _prepare(
    options: Options,
    target: Target,
    required: list[str],
    cases: list[Collected],
    found: Preflight,
    flat: dict[str, str],
    hcd_hash: str,
) -> Run:
    """Make the run's folder and settings, or go on with those of `--resume`."""
    import hashlib

    port = Path(target.file)
    settings = {
        "port": target.name,
        "port_sha256": hashlib.sha256(port.read_bytes()).hexdigest() if port.is_file() else "",
        "hcd": options.hcd,
        "hcd_sha256": hcd_hash,
        "tier": options.tier,
        "device": options.device,
        "seed": options.seed,
        "nonce": options.nonce,
        "budget": options.budget,
        "suite_sha256": suite_hash(options.suite),
        "required_sha256": required_hash(required),
    }
    name = found.facts.get("name") or port.stem
    out = options.resume or options.out or Path("out") / name
    own = {case.id: case for case in cases if not case.is_control}
    run = Run(options, target, out, settings, required, own, found, flat, hcd_hash)
    if options.resume:
        _check_same(options.resume, settings)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{path}\t{value}\n" for path, value in flat.items())
        (out / "chip.flat").write_text(lines, encoding="utf-8")
        if not options.resume:
            run.results_path.unlink(missing_ok=True)
            text = json.dumps(settings, indent=2) + "\n"
            (out / "run.json").write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{out} cannot be written: {error.strerror}",
            call="hal-certify",
            next_step="Name a folder of yours with --out.",
        ) from None
    return run


def settings_in(folder: Path) -> dict[str, Any]:
    """Return the settings of the run in a folder. Raises UsageError when there is none."""
    try:
        settings = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        settings = None
    if not isinstance(settings, dict):
        raise UsageError(
            f"{folder} holds no run to resume",
            call="hal-certify --resume",
            next_step="Name the --out folder of a run that was interrupted.",
        )
    return settings


def _check_same(folder: Path, settings: dict[str, Any]) -> None:
    """Refuse to go on with a run that was another one."""
    before = settings_in(folder)
    changed = [key for key in settings if before.get(key) != settings[key]]
    if changed:
        first = changed[0]
        raise UsageError(
            f"{', '.join(changed)} changed since the run started "
            f"({first}: {before.get(first)!r}, now {settings[first]!r})",
            call="hal-certify --resume",
            next_step="Start a new run.",
        )


def _chosen(run: Run) -> list[Collected]:
    """Return the cases to run, in order."""
    options = run.options
    cases = [run.cases[name] for name in run.cases if name in set(run.required)]
    if options.select:
        test = selector(options.select)
        cases = [case for case in cases if test(case)]
        run.void.append(f"only part of the suite was asked for: --select {options.select!r}")
        if not cases:
            raise UsageError(
                f"--select {options.select!r} means no case",
                call="hal-certify",
                next_step="hal-certify --list prints all ids.",
            )
    if options.rerun_failed:
        failed = _failed_before(options.rerun_failed)
        cases = [case for case in cases if case.id in failed]
        run.void.append("only cases that failed before ran; a second try never makes a pass")
        if not cases:
            raise UsageError(f"{options.rerun_failed} holds no failure", call="hal-certify")
    if options.quick:
        cases = random.Random(options.seed).sample(cases, max(1, len(cases) // QUICK_SHARE))
        run.void.append("--quick runs a tenth of the cases")
    if options.shuffle:
        random.Random(f"{options.seed}{options.nonce}").shuffle(cases)
    return cases


def _failed_before(folder: Path) -> set[str]:
    path = folder / "results.jsonl"
    if not path.is_file():
        raise UsageError(f"{path} is not there", call="hal-certify --rerun-failed")
    final = outcome.latest(outcome.read(path).results)
    return {name for name, result in final.items() if result["status"] in outcome.BAD}


def _jobs(cases: Sequence[Collected], size: int) -> list[Job]:
    """Share cases out to children: neighbours of one file may share one."""
    jobs: list[Job] = []
    for case in cases:
        last = jobs[-1].cases if jobs else []
        same = bool(last) and (last[0].tier, last[0].group) == (case.tier, case.group)
        if same and len(last) < size:
            last.append(case)
        else:
            jobs.append(Job([case]))
    return jobs


def session_of(options: Options, target: Target, flat: dict[str, str]) -> dict[str, Any]:
    """Return what the server passes to every child."""
    return {
        "target": asdict(target),
        "device_index": options.device or 0,
        "seed": options.seed,
        "nonce": options.nonce,
        "flat": flat,
    }


def soak_seconds(options: Options, cases: Sequence[Collected]) -> float:
    """Return for how long each long case goes on, so that all together take the budget."""
    long = sum(case.soak for case in cases)
    return options.budget * min(options.workers, long) / long if long else 0.0


def _run_cases(run: Run, supervisor: Supervisor) -> None:
    """Run what is to be run, writing each result as it comes."""
    cases = _chosen(run)
    reading = outcome.read(run.results_path)
    if reading.problems:  # a resumed run whose last line was cut
        with run.results_path.open("r+b") as file:
            file.truncate(reading.good_bytes)
    done = outcome.latest(reading.results)
    cases = [case for case in cases if done.get(case.id, _NONE)["status"] == outcome.NOT_RUN]
    soak_s = soak_seconds(run.options, cases)
    supervisor.use(session_of(run.options, run.target, run.flat) | {"soak_s": soak_s})
    cases = [replace(c, timeout_s=c.timeout_s + soak_s) if c.soak else c for c in cases]
    writer = outcome.Writer(run.results_path, reading.chain)
    title = f"{run.preflight.facts.get('name', run.target.name)}, tier {run.options.tier}"
    left = {case.id for case in cases}
    lost = 0

    def sink(_: Job, case: Collected, result: dict[str, Any]) -> None:
        nonlocal lost
        progress.add(writer.add(complete(case, result, run.settings)))
        left.discard(case.id)
        lost = lost + 1 if "DEVICE_LOST" in result.get("message", "")[:300] else 0
        if lost >= DEVICE_LOST_LIMIT:
            raise _DeviceLost

    with Progress(title, len(cases), quiet=run.options.quiet) as progress:
        try:
            supervisor.run(_jobs(cases, _group_size(run.options.isolation)), sink)
        except KeyboardInterrupt:
            run.interrupted = True
        except _DeviceLost:
            run.device_lost = True
        finally:
            _leave_out(run, writer, [case for case in cases if case.id in left])
            writer.close()


_NONE: dict[str, Any] = {"status": outcome.NOT_RUN}


class _DeviceLost(Exception):
    """Several cases in a row ended with DEVICE_LOST."""


def _run_nothing(run: Run) -> None:
    """Write that no case ran."""
    writer = outcome.Writer(run.results_path, outcome.read(run.results_path).chain)
    _leave_out(run, writer, [run.cases[name] for name in run.required])
    writer.close()


def _leave_out(run: Run, writer: outcome.Writer, cases: Iterable[Collected]) -> None:
    reason = run.preflight.problem or "the run ended before it"
    for case in cases:
        result = {"status": outcome.NOT_RUN, "message": reason, "cause": reason, "duration_s": 0}
        writer.add(complete(case, result, run.settings))


def complete(case: Collected, result: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the results file: what the case is, and what it gave."""
    about = {
        "id": case.id,
        "status": result["status"],
        "rules": list(case.rules),
        "tier": case.tier,
        "group": case.group,
        "negative": case.negative,
        "subject": case.subject,
    }
    named = {key: getattr(case, key) for key in ("operator", "dtype") if getattr(case, key)}
    return {**about, **named, **result, "repro": causes.repro_command(case.id, settings)}


def _check_clock(run: Run, supervisor: Supervisor) -> None:
    """Void a run in which the clock jumped: its time limits mean nothing."""
    if supervisor.clock_jump_s:
        run.void.append(
            f"the clock jumped by {supervisor.clock_jump_s:.1f} s during the run, so its time "
            "limits mean nothing; run it again"
        )


def _judge(run: Run) -> None:
    """Derive the verdict from the files, and the exit code from the verdict."""
    reading = outcome.read(run.results_path)
    run.verdict = derive(
        run.required, reading, run.flat, void=run.void, refused=run.preflight.problem
    )
    run.exit_code = run.verdict.exit_code
    if not run.preflight.usable:
        run.exit_code = 2
    elif run.device_lost:
        run.exit_code = 6
    elif run.interrupted:
        run.exit_code = 130


def list_cases(options: Options) -> list[Collected]:
    """Return the cases of a tier without a port, checked like a run's."""
    with Supervisor(
        options.suite, paths_of(options.suite, options.tier), server=options.server
    ) as supervisor:
        cases = supervisor.collect()
    check_suite(cases, read_required(options.suite, options.tier), options.suite)
    own = [case for case in cases if not case.is_control]
    test = selector(options.select) if options.select else None
    return [case for case in own if test is None or test(case)]
