"""What need.sh takes for a libclang that bindgen can use: its own test on folders made for it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

NEED = Path(__file__).with_name("need.sh").read_text()


def finds_libclang(*files: str) -> bool:
    """Whether libclang counts as present where these files are all that stands below /usr/lib."""
    start = NEED.index("libclang_reads() {")
    function = NEED[start : NEED.index("\n}\n", start) + 3]
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            path = Path(folder, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        script = f"set -euo pipefail\n{function.replace('/usr/lib', f'{folder}/')}\nlibclang_reads"
        environment = {name: value for name, value in os.environ.items() if name != "LIBCLANG_PATH"}
        done = subprocess.run(["bash", "-c", script], env=environment, check=False)
    return done.returncode == 0


HEADERS = "llvm-14/lib/clang/14.0.6/include/stddef.h"


class Libclang(unittest.TestCase):
    """A machine that has only a part of it must get the rest, or the build fails in its middle."""

    def test_library_and_headers_of_one_version_are_enough(self) -> None:
        for library in ("libclang.so", "libclang.so.1", "libclang-14.so.1", "libclang-14.so"):
            self.assertTrue(finds_libclang(HEADERS, f"llvm-14/lib/{library}"), library)

    def test_a_part_is_not(self) -> None:
        for files in (
            (),
            (HEADERS,),
            ("llvm-14/lib/libclang-14.so.1",),
            ("llvm-14/lib/libclang-cpp.so.14",),
            (HEADERS, "llvm-14/lib/libclang-cpp.so.14"),
            (HEADERS, "llvm-15/lib/libclang-15.so.1"),
        ):
            self.assertFalse(finds_libclang(*files), files)


if __name__ == "__main__":
    unittest.main()
