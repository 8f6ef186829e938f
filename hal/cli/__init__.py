"""The command `hal`: a group whose subcommands are imported only when they are run.

Each subcommand is a click command in a module of its own, named in COMMANDS. Nothing heavy is
imported here, so that `hal --help` answers at once.
"""

import importlib
import sys

import click

from hal import __version__
from hal.command import run as run_group  # `run` is a subcommand's module

COMMANDS: dict[str, tuple[str, str]] = {
    "cert": ("hal.cli.cert:command", "Show, verify and compare certificates."),
    "devices": ("hal.cli.devices:command", "List the devices of every port that loads."),
    "doctor": ("hal.cli.doctor:command", "Say what is installed, what is broken, what to do."),
    "fmt": ("hal.cli.fmt:command", "Print kernel texts in the canonical form."),
    "explain": ("hal.cli.explain:command", "Print what compiling does with a kernel, by stages."),
    "hcd": ("hal.cli.hcd:command", "Check, show, resolve and compare chip descriptions."),
    "info": ("hal.cli.info:command", "Show what one device can do, and how."),
    "paths": ("hal.cli.paths:command", "Print where headers, libraries and data lie."),
    "port": ("hal.cli.port:command", "Start a port, build, check, measure and pack it."),
    "ports": ("hal.cli.ports:command", "List the ports and why each did or did not load."),
    "repro": ("hal.cli.repro:command", "Run one certification case again, alone."),
    "run": ("hal.cli.run:command", "Run a kernel text on a device and check what it computes."),
    "sim": ("hal.cli.sim:command", "Predict times of operators and models on a chip."),
    "tune": ("hal.cli.tune:command", "Find the best tiles of a kernel for a chip and sizes."),
    "vil": ("hal.cli.vil:command", "Assemble, print, check and run VIL programs."),
}
"""Name of a subcommand: where it is ("module:attribute") and its line in the help."""


class LazyGroup(click.Group):
    """A click group that knows its subcommands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in alphabetical order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the subcommand, or None when there is no such name.

        Raises:
            click.ClickException: the module is not part of this installation.
        """
        if cmd_name not in COMMANDS:
            return None
        module_name, _, attribute = COMMANDS[cmd_name][0].partition(":")
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is not None and module_name.startswith(error.name):
                raise click.ClickException(
                    f"'hal {cmd_name}' is not part of this installation "
                    f"({error.name} is missing). Reinstall hal-sdk."
                ) from None
            raise click.ClickException(
                f"'hal {cmd_name}' needs the Python package '{error.name}'. "
                "Run 'hal doctor' to see all that is missing."
            ) from None
        command = getattr(module, attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; a mistyped name is answered with the nearest ones."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=2, cutoff=0.7)
            hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
            ctx.fail(f"There is no command '{name}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="hal")
def group() -> None:
    """Describe a chip, load a port, run a kernel, certify it."""


def main() -> None:
    """Run the command `hal`."""
    sys.exit(run_group(group, prog_name="hal"))
