"""``gossiprec completion``: install the completion of commands, options and names in a shell."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
from click.shell_completion import get_completion_class

RC_FILES = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/completions/gossiprec.fish"}
"""The file below the home folder that each shell reads; for fish, the script itself."""


UNFINISHED: dict[str, list[tuple[str, str]]] = {
    "bash": [("COMPREPLY+=($value)", "COMPREPLY+=($value); [[ $value == *[.=] ]] && compopt -o nospace")],
    "zsh": [
        ('completions+=("$key")', 'if [[ "$key" == *[.=] ]]; then parts+=("$key"); else completions+=("$key"); fi'),
        ("local -a completions\n", "local -a completions parts\n"),
        (
            '    if [ -n "$completions" ]',
            "    (( $#parts )) && compadd -U -S '' -V unsorted -a parts\n    if [ -n \"$completions\" ]",
        ),
    ],
    "fish": [],
}  # fmt: skip
"""Changes to click's scripts: after a word that ends with ``.`` or ``=`` no blank follows, as in fish."""


@click.command()
@click.argument("shell", required=False, type=click.Choice([*RC_FILES]))
@click.option("--print", "prints", is_flag=True, help="Print the script; write nothing.")
def completion(shell: str | None, prints: bool) -> None:
    """Install completion for bash, zsh or fish (default: the shell in $SHELL).

    For bash and zsh, the script is written to ~/.local/share/gossiprec, and one line that reads it is added to
    ~/.bashrc or ~/.zshrc. Running the command again renews the script and adds nothing.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in RC_FILES:
        raise click.UsageError(
            f"found SHELL={shell!r}; name the shell: gossiprec completion {'|'.join(RC_FILES)}"
        )
    made = get_completion_class(shell)
    assert made is not None, f"click completes {shell}"
    source = made(click.Command("gossiprec"), {}, "gossiprec", "_GOSSIPREC_COMPLETE").source()
    for before, after in UNFINISHED[shell]:
        source = source.replace(before, after)
    if prints:
        click.echo(source)
        return
    for file in install(shell, source, Path.home()):
        click.echo(f"{file}: written")
    click.echo(f"next: open a new {shell}")


def install(shell: str, source: str, home: Path) -> list[Path]:
    """Write the script, and the line that reads it unless it is there; return the files that were changed."""
    rc = home / RC_FILES[shell]
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    script = rc if shell == "fish" else data / "gossiprec" / f"completion.{shell}"
    changed = [script]
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(source, encoding="utf-8")
        path = shlex.quote(str(script))
        line = f"[ -f {path} ] && . {path}  # completion of gossiprec"
        before = rc.read_text(encoding="utf-8") if rc.is_file() else ""
        if shell != "fish" and line not in before.splitlines():
            starts = (
                "autoload -Uz compinit && compinit\n" if shell == "zsh" and "compinit" not in before else ""
            )
            with rc.open("a", encoding="utf-8") as file:
                file.write(("" if before.endswith("\n") or not before else "\n") + starts + line + "\n")
            changed.append(rc)
    except OSError as error:
        raise click.FileError(str(error.filename or script), error.strerror or str(error)) from None
    return changed
