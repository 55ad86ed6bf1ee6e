"""``gossiprec completion``: print the script with which a shell completes commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from gossiprec.cli.terminal import echo


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

    source_template = ZshComplete.source_template.replace(
        "compadd -U -V unsorted -a completions",
        "compadd -U -V unsorted -S '' -- ${(M)completions:#*[.=]}; "
        "compadd -U -V unsorted -- ${completions:#*[.=]}",
    )


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice([*SHELLS]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and names in bash, zsh or fish.

    \b
    gossiprec completion bash >> ~/.bashrc
    gossiprec completion zsh >> ~/.zshrc      after a line with compinit
    gossiprec completion fish > ~/.config/fish/completions/gossiprec.fish
    """  # noqa: D301
    source = SHELLS[shell](click.Command("gossiprec"), {}, "gossiprec", "_GOSSIPREC_COMPLETE").source()
    echo(source, whole=True)
