#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/python.md shows runs as it stands."""
import contextlib
import io
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import numpy, run_tests, with_client  # noqa: E402


@with_client("--space-memory", "32M")
def test_the_pages_programs_run(client):
    numpy()
    with open(os.path.join(os.environ["NIGH_SOURCE"], "docs", "python.md"), encoding="utf-8") as page:
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    os.environ["NIGH_SOCKET"] = client.node.path
    names, said = {}, io.StringIO()
    with contextlib.redirect_stdout(said):
        for number, block in enumerate(blocks):
            exec(compile(block, f"docs/python.md, block {number}", "exec"), names)
    assert said.getvalue() == "b'hello' b''\n", said.getvalue()
    assert (names["batch"]["x"] == names["weights"]).all()
    assert names["region"].fetch_add(0, 0) == 1


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
