"""``gossiprec``: the command line. Commands are imported when they are called; errors end in one message."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

from gossiprec.base.errors import GossipRecError, describe_os_error, did_you_mean
from gossiprec.base.portable import NotPortableError, portable_environment
from gossiprec.cli import INTERRUPTED
from gossiprec.cli.terminal import echo, show_error
from gossiprec.streams import is_unread, silence
from gossiprec.version import __version__

COMMANDS = {
    "init": "scenario",
    "simulate": "simulate",
    "resume": "simulate",
    "replay": "simulate",
    "rerun": "runs",
    "runs": "runs",
    "diff": "runs",
    "compare": "runs",
    "observe": "observe",
    "counterfactual": "counterfactual",
    "influence": "counterfactual",
    "unlearn": "counterfactual",
    "epsilon": "epsilon",
    "audit": "epsilon",
    "study": "study",
    "scenario": "scenario",
    "topology": "topology",
    "table": "table",
    "plot": "plot",
    "report": "report",
    "log": "log",
    "data": "data",
    "list": "list",
    "doctor": "doctor",
    "completion": "completion",
}
"""The module of this package that holds each command, by the name of the command."""

NO_MEMORY = (
    "can't allocate memory",
    "cannot allocate memory",
    "failed to map segment",
    "can't start new thread",
)
"""Phrases with which libraries and the dynamic linker report that memory is unavailable."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called, and suggests the nearest name for a misspelt one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in COMMANDS:
            return None
        return getattr(importlib.import_module(f"gossiprec.cli.{COMMANDS[cmd_name]}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` begin with."""
        name = args[0]
        if name in COMMANDS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if name.endswith((".yaml", ".yml")):
            ctx.fail(f"no such command {name!r}; did you mean 'gossiprec simulate {name}'?")
        ctx.fail(f"no such command {name!r}{did_you_mean(name, COMMANDS)}")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gossiprec")
def gossiprec() -> None:
    """Emulate decentralised and federated recommender systems, and privacy attacks on them.

    \b
    Start here:
      gossiprec init smoke                                 write smoke.yaml: 24 nodes, seconds
      gossiprec simulate smoke.yaml
      gossiprec init rand_gossip                           943 nodes, the main scenario, with comments
      gossiprec data check views.csv                       check how a data file is read

    \b
    Then:
      gossiprec simulate rand_gossip.yaml --set protocol.wakes=50 --seed 2
      gossiprec simulate rand_gossip.yaml --dry-run
      gossiprec resume runs/rand-gossip-s1                 resume after Ctrl-C, a crash or kill -9
      gossiprec runs                                       list runs, and what differs between them
      gossiprec init churn
      gossiprec study studies/churn.yaml                   run many variants and seeds
      gossiprec scenario show smoke.yaml                   print all keys with defaults
      gossiprec list attacks                               list registered attacks, including plug-ins
      gossiprec list scenarios                             list bundled scenarios
      gossiprec plot exposure runs/rand-gossip-s1          plot the fraction of nodes met
      gossiprec report runs/rand-gossip-s1                 write an HTML report
      gossiprec log stats runs/rand-gossip-s1              summarise the event log

    Set GOSSIPREC_DEBUG=1 to show tracebacks.
    """  # noqa: D301


def exit_code(
    arguments: Sequence[str],
    command: click.Command = gossiprec,
    *,
    name: str = "gossiprec",
    may_restart: bool = False,
) -> int:
    """Run a command line, print errors to stderr, and return the exit status.

    Parameters
    ----------
    arguments : sequence of str
    command : click.Command
        gossiprec's own, or the command of a script that uses the same errors and statuses.
    name : str
        Name of the command in its usage line.
    may_restart : bool
        Whether the process may restart itself, with the same arguments, in the environment that ``executor.portable``
        needs.

    Returns
    -------
    int
        0 for success, also if the reader of the output has closed the pipe (``| head``); 2 for errors in usage,
        scenario or data; 1 if the machine lacks a resource; 130 after Ctrl-C and SIGTERM.
    """
    try:
        returned = command.main(list(arguments), prog_name=name, standalone_mode=False)
        _flush()
    except click.Abort:  # click raises this for Ctrl-C
        return _failed("interrupted", INTERRUPTED)
    except click.ClickException as error:
        show_error(error)
        return error.exit_code
    except NotPortableError as error:
        if may_restart:
            _restart()
        return _failed(_as_error(str(error)), error.exit_code)
    except GossipRecError as error:
        return _failed(_as_error(str(error)), error.exit_code)
    except (BrokenPipeError, SystemExit) as error:
        if not is_unread(error):
            raise
        return 0  # the reader closed the pipe, as `head` does
    except Exception as error:
        message, status = _foreign_error(error)
        message = message or _damage(arguments)
        if not message:
            raise
        return _failed(_as_error(message), status)
    return returned if isinstance(returned, int) else 0


def _restart() -> None:
    """Restart the process for the portable target, with the same arguments."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], portable_environment(os.environ))


def _as_error(message: str) -> str:
    """Return the message as it is printed, with the problems of a scenario aligned one per line."""
    return "error: " + message.replace("\n", "\n       ")


def _failed(message: str, code: int) -> int:
    if os.environ.get("GOSSIPREC_DEBUG", "0") not in ("", "0"):
        traceback.print_exc()
    echo(message, err=True)
    return code


def _flush() -> None:
    """Flush stdout now, so that a failure can be reported; the exit of the process must not retry it."""
    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout.fileno())
        raise


def _damage(arguments: Sequence[str]) -> str:
    """Return a fault of the first damaged run directory among the arguments, or an empty string."""
    from gossiprec.runs.run_list import find_runs
    from gossiprec.runs.verify import first_fault

    folders = [word for word in arguments if os.path.isdir(word)]
    faults = (first_fault(run) for folder in folders for run in find_runs(folder))
    fault = next(filter(None, faults), None)
    return f"{fault}; restore it from a copy, or run its scenario.yaml again" if fault else ""


def _foreign_error(error: Exception) -> tuple[str, int]:
    """Return message and exit status of an error of another library; the message is empty for a fault in the code.

    A fault in the code may have its reason in a damaged file.
    """
    words = " ".join(str(each) for each in (error, error.__cause__, error.__context__)).lower()
    if isinstance(error, ValueError) and "embedded null" in words:
        return "found a path with the character \\0; expected one without it; correct the path", 2
    exhausted = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if isinstance(error, OSError) and not any(sign in words for sign in NO_MEMORY):
        return describe_os_error(error)
    if exhausted or any(sign in words for sign in NO_MEMORY):
        return (
            "out of memory, or above a memory limit (ulimit -v, a container); raise the limit, or reduce "
            "dataset.limit_users or dataset.users, model.dim or the number of observers, and check the estimate with "
            "`gossiprec simulate SCENARIO --dry-run`"
        ), 1
    return "", 2
