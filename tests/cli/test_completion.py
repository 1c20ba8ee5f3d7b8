"""`holdfast completion`: scripts for shells."""

from __future__ import annotations

import shutil
import subprocess

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(holdfast, shell):
    result = holdfast("completion", shell)

    assert result.status == 0
    assert f"_HOLDFAST_COMPLETE={shell}_complete" in result.out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_bash_script_is_bash(holdfast):
    script = holdfast("completion", "bash").out

    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_shell_completes_commands(program):
    result = program(
        _HOLDFAST_COMPLETE="bash_complete", COMP_WORDS="holdfast state-store h", COMP_CWORD="2"
    )

    assert result.out == "plain,history\n"


def test_an_unsupported_shell_is_refused(holdfast):
    assert holdfast("completion", "tcsh").status == 2
