"""`holdfast completion`: shell completion of commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: eval "$(holdfast completion bash)"
    zsh:  eval "$(holdfast completion zsh)"
    fish: holdfast completion fish | source
    """
    from holdfast.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "holdfast", "_HOLDFAST_COMPLETE").source())
