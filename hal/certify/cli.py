"""The command `hal-certify`. Everything heavy is imported when a run starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hal import __version__
from hal.cli.seconds import seconds
from hal.command import run as run_command

if TYPE_CHECKING:
    from hal.certify.run import Options

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)


def _budget(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Return the seconds of `--budget`; 0 when it is not given."""
    return seconds(ctx, param, value) if value else 0.0


@click.command("hal-certify", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("port", required=False, default="")
@click.option("--tier", type=click.IntRange(1, 3), help="Certify up to this tier [1; exam: 2].")
@click.option("--hcd", default="", metavar="FILE", help="The chip's HCD: a file or shipped name.")
@click.option("--device", type=int, metavar="I", help="Which device of the port [0].")
@click.option("--select", default="", metavar="EXPR", help="Only these cases; the run is void.")
@click.option("--list", "listing", is_flag=True, help="Print the cases' ids and stop.")
@click.option("--rerun-failed", type=FOLDER, metavar="DIR", help="Only what failed in DIR; void.")
@click.option(
    "--resume", type=FOLDER, metavar="DIR", help="Go on with the run in DIR, which names the rest."
)
@click.option("--isolation", default="case", metavar="case|group:N", help="Cases per process.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes at once [cores].")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of inputs and order [0].")
@click.option("--nonce", default="", metavar="HEX", help="Makes inputs that nobody could foresee.")
@click.option(
    "--budget", default="", metavar="TIME", callback=_budget, help="Length of the long cases [0s]."
)
@click.option("--shuffle", is_flag=True, help="Run the cases in an order drawn from the seed.")
@click.option("--quick", is_flag=True, help="A tenth of the cases; the run is void.")
@click.option("--junit", type=FILE, metavar="FILE", help="JUnit results [DIR/junit.xml].")
@click.option("--html", type=FILE, metavar="FILE", help="The report [DIR/report.html].")
@click.option("--out", type=FOLDER, metavar="DIR", help="Folder of all outputs [out/NAME].")
@click.option("--self-test", is_flag=True, help="Break the port on purpose; see that it shows.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the summary.")
@click.version_option(__version__, "-V", "--version", prog_name="hal-certify")
def command(port: str, **wishes: Any) -> int:
    """Certify a port: does it keep the rules, and are its numbers right?

    PORT is a name (acme), a shared object, a folder that holds one, or NAME:HCD for a chip of
    your choice. Without one the simulated chip is certified.

    \b
    Exit status: 0 certified, 1 not certified, 2 wrong usage or HCD, 3 the suite is broken,
    4 incomplete or void, 5 verification failed, 6 device lost, 7 a mutant survived,
    130 interrupted (go on with --resume).
    """
    listing, self_test = wishes.pop("listing"), wishes.pop("self_test")
    junit, html = wishes.pop("junit"), wishes.pop("html")
    if wishes["resume"] is not None:
        port = _take_up(click.get_current_context(), port, wishes)
    wishes["tier"] = wishes["tier"] or (2 if self_test else 1)
    options = _options(port, wishes)
    if listing:
        return _list(options)
    if self_test:
        return _self_test(options)
    return _certify(options, junit, html)


def _take_up(ctx: click.Context, port: str, wishes: dict[str, Any]) -> str:
    """Fill what was not said with the settings of the run to go on with; return the port."""
    from hal.certify.run import settings_in

    before = settings_in(wishes["resume"])
    for name in ("tier", "hcd", "device", "seed", "nonce", "budget"):
        said = ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
        if not said and name in before:
            wishes[name] = before[name]
    return port or str(before.get("port", ""))


def _options(port: str, wishes: dict[str, Any]) -> Options:
    from hal.certify.run import Options

    return Options(port=port, **(wishes | {"jobs": wishes["jobs"] or 0}))


def _self_test(options: Options) -> int:
    """Run the suite's own exam."""
    from hal.certify.selftest import self_test

    return self_test(options)


def _list(options: Options) -> int:
    """Print the ids, one a line."""
    from hal.certify.run import list_cases

    for case in list_cases(options):
        click.echo(case.id)
    return 0


def _certify(options: Options, junit: Path | None, html: Path | None) -> int:
    """Run, write the outputs, print the summary."""
    from hal.certify.run import certify
    from hal.certify.summary import print_summary, write_outputs

    run = certify(options)
    write_outputs(run, junit=junit, html=html)
    print_summary(run)
    return run.exit_code


def main() -> None:
    """Run the command `hal-certify`."""
    sys.exit(run_command(command, prog_name="hal-certify"))
