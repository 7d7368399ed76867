"""The module of reply.c, compiled on the spot: a command that only replies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from workloads import RANDOM

# As many words as the token bucket has, so that the server parses the same.
WORDS = ("RLBENCH.REPLY", f"re:a:{RANDOM}", "1000000", "100", "1s")


def build(folder: Path) -> Path | None:
    """The compiled module, or None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("note: no C compiler, so nothing that only replies is measured", file=sys.stderr)
        return None
    folder.mkdir(parents=True, exist_ok=True)
    module = folder / "reply.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(module), str(source)], check=True)
    return module.resolve()
