#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/python.md shows runs as it stands, and the type hints are of what there is."""
import ast
import builtins
import contextlib
import io
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import numpy, run_tests, with_client  # noqa: E402

import nigh  # noqa: E402


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


def test_all_of_it_hides_nothing_of_pythons():
    names = {}
    exec("from nigh import *", names)
    assert names["NotFoundError"] is nigh.NotFoundError and issubclass(nigh.TimeoutError, TimeoutError)
    assert not set(vars(builtins)) & (set(names) - {"__builtins__"})


def hinted():
    """The names that _native.pyi has: those of each class, and those of the module."""
    with open(os.path.join(os.environ["NIGH_SOURCE"], "bindings", "python", "nigh", "_native.pyi"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    classes, names = {}, set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            for base in node.bases:
                classes[node.name] |= classes.get(getattr(base, "id", None), set())
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    return classes, names


def test_the_type_hints_name_all():
    classes, names = hinted()
    for name, value in vars(nigh._native).items():
        if name.startswith("_"):
            continue
        if isinstance(value, int):
            assert name in names, name
        elif issubclass(value, BaseException):
            assert name in classes, name
        else:
            there = {each for each in vars(value) if not each.startswith("_")}
            told = {each for each in classes[name] if not each.startswith("_")}
            assert there == told, (name, there ^ told)


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
