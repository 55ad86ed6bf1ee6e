"""``gossiprec completion``: install the completion of commands, options and names in a shell."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from gossiprec.cli.terminal import echo

RC_FILES = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/completions/gossiprec.fish"}
"""The file below the home folder that each shell reads; for fish, the script itself."""


class Bash(BashComplete):
    """The completion of bash; after a word that ends with ``.`` or ``=`` no blank follows, as in fish.

    Bash breaks words at ``=`` and ``:``, too (``COMP_WORDBREAKS``), and replaces only the last part. The script joins
    the parts between which the line has no blank, and returns what follows the parts that bash keeps.
    """

    source_template = r"""%(complete_func)s() {
    local line word part rest=$COMP_LINE words=() kept
    COMPREPLY=()
    for part in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -eq 0 || $rest == [[:space:]]* ]]; then words+=("$part")
        else words[-1]+=$part; fi
        rest=${rest#"${rest%%%%[![:space:]]*}"}
        rest=${rest#"$part"}
    done
    if [[ $part == [=:] ]]; then part=; fi
    kept=${words[-1]%%"$part"}
    if [[ $kept == --*=* ]]; then kept=${kept#*=}; fi
    while IFS= read -r line; do
        word=${line#*,}
        case ${line%%%%,*} in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("${word#"$kept"}")
                if [[ $word == *[.=] ]]; then compopt -o nospace; fi ;;
        esac
    done < <(env COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Zsh(ZshComplete):
    """The completion of zsh; after a word that ends with ``.`` or ``=`` no blank follows, as in fish."""

    source_template = r"""#compdef %(prog_name)s
%(complete_func)s() {
    (( $+commands[%(prog_name)s] )) || return 1
    local kind word about
    local -a lines plain unfinished described
    lines=("${(@f)$(
        env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT - 1)) %(complete_var)s=zsh_complete %(prog_name)s
    )}")
    for kind word about in $lines; do
        case $kind in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            plain)
                if [[ $about != _ ]]; then described+=("$word:$about")
                elif [[ $word == *[.=] ]]; then unfinished+=("$word")
                else plain+=("$word"); fi ;;
        esac
    done
    if (( $#described )); then _describe -V unsorted described -U; fi
    if (( $#unfinished )); then compadd -U -S '' -V unsorted -a unfinished; fi
    if (( $#plain )); then compadd -U -V unsorted -a plain; fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": FishComplete}


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
    source = SHELLS[shell](click.Command("gossiprec"), {}, "gossiprec", "_GOSSIPREC_COMPLETE").source()
    if prints:
        echo(source, whole=True)
        return
    for file in install(shell, source, Path.home()):
        echo(f"{file}: written")
    echo(f"next: open a new {shell}")


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
