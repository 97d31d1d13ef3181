#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/python.md show runs as it stands, and the type hints are of what there is."""
import ast
import builtins
import contextlib
import inspect
import io
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import numpy, run_tests, with_client  # noqa: E402

import nigh  # noqa: E402


def run_blocks(client, name, count):
    """The names that a page's programs leave, run one behind the other, and what they print."""
    with open(os.path.join(os.environ["NIGH_SOURCE"], name), encoding="utf-8") as page:
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == count
    os.environ["NIGH_SOCKET"] = client.node.path
    names, said = {}, io.StringIO()
    with contextlib.redirect_stdout(said):
        for number, block in enumerate(blocks):
            exec(compile(block, f"{name}, block {number}", "exec"), names)
    return names, said


@with_client()
def test_the_readmes_program_runs(client):
    ones = numpy().ones((1024, 1024))
    names, _ = run_blocks(client, "README.md", 1)
    assert (names["weights"] == ones).all() and not names["weights"].flags.writeable


@with_client("--space-memory", "32M")
def test_the_pages_programs_run(client):
    numpy()
    names, said = run_blocks(client, "docs/python.md", 3)
    assert said.getvalue() == "b'hello' b''\n", said.getvalue()
    assert (names["batch"]["x"] == names["weights"]).all()
    assert names["region"].fetch_add(0, 0) == 1


def test_all_of_it_hides_nothing_of_pythons():
    names = {}
    exec("from nigh import *", names)
    assert names["NotFoundError"] is nigh.NotFoundError and issubclass(nigh.TimeoutError, TimeoutError)
    assert not set(vars(builtins)) & (set(names) - {"__builtins__"})


def hinted():
    """What _native.pyi has: the functions of each class, and the names of the module."""
    with open(os.path.join(os.environ["NIGH_SOURCE"], "bindings", "python", "nigh", "_native.pyi"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    classes, names = {}, set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
            for base in node.bases:
                classes[node.name] |= classes.get(getattr(base, "id", None), {})
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    return classes, names


def said_of(method):
    """The names of its parameters, and which have a value where they are not given."""
    return [(each.name, each.kind, each.default is not each.empty) for each in inspect.signature(method).parameters.values()]


def hinted_of(function):
    """The same, as _native.pyi has it."""
    arguments = function.args
    kinds = [*(inspect.Parameter.POSITIONAL_ONLY for _ in arguments.posonlyargs),
             *(inspect.Parameter.POSITIONAL_OR_KEYWORD for _ in arguments.args)]
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    kinds[0] = inspect.Parameter.POSITIONAL_ONLY  # self
    given = len(names) - len(arguments.defaults)
    told = [(name, kind, n >= given) for n, (name, kind) in enumerate(zip(names, kinds))]
    return told + [(each.arg, inspect.Parameter.KEYWORD_ONLY, default is not None)
                   for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]


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
            for each in there:
                if callable(getattr(value, each)):
                    assert said_of(getattr(value, each)) == hinted_of(classes[name][each]), (name, each)


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
