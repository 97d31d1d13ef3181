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
import nigh.aio  # noqa: E402
import nigh.plasma  # noqa: E402


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
    errors = {name for name in vars(nigh._native) if name.endswith("Error")}
    assert errors == {name for name in vars(nigh) if name.endswith("Error")}
    assert errors - set(names) == errors & set(vars(builtins))


def parameters(function):
    return [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def hinted():
    """What _native.pyi has: the functions of each class, and the names of the module."""
    with open(os.path.join(os.environ["NIGH_SOURCE"], "bindings", "python", "nigh", "_native.pyi"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    classes, names = {}, set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = functions = {}
            for each in node.body:
                if isinstance(each, ast.FunctionDef):
                    first = functions.setdefault(each.name, each)  # of an overload
                    assert each is first or parameters(each) == parameters(first), each.name
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
    assert nigh.Pending[bytes].__origin__ is nigh.Pending
    classes, names = hinted()
    for name, value in vars(nigh._native).items():
        if name.startswith("_"):
            continue
        if isinstance(value, int):
            assert name in names, name
        elif issubclass(value, BaseException):
            assert name in classes, name
            assert getattr(nigh, name) is value, name
        else:
            there = {each for each in vars(value) if not each.startswith("_")}
            told = {each for each in classes[name] if not each.startswith("_")}
            assert there == told, (name, there ^ told)
            for each in there:
                if callable(getattr(value, each)):
                    assert said_of(getattr(value, each)) == hinted_of(classes[name][each]), (name, each)


def public(thing):
    return {name for name in vars(thing) if not name.startswith("_")}


def test_the_typed_program_has_all():
    """hints.py, which tools/check-types reads, names all that a program may use."""
    with open(os.path.join(os.environ["NIGH_SOURCE"], "tests", "python", "hints.py"), encoding="utf-8") as file:
        nodes = list(ast.walk(ast.parse(file.read())))
    told = {node.attr for node in nodes if isinstance(node, ast.Attribute)} | {node.id for node in nodes if isinstance(node, ast.Name)}
    wanted = {"TimeoutError", "OverflowError", *nigh.__all__}
    for module in (nigh.aio, nigh.plasma):
        wanted |= {name for name in public(module) if getattr(vars(module)[name], "__module__", None) == module.__name__}
    classes = [vars(module)[name] for module in (nigh, nigh._native, nigh.aio, nigh.plasma) for name in wanted & public(module)]
    for each in classes:
        if isinstance(each, type) and each.__module__.startswith("nigh") and not issubclass(each, nigh.Error):
            wanted |= public(each)
    wanted |= {"PlasmaObjectExists", "PlasmaObjectNotFound", "PlasmaObjectNonexistent", "PlasmaStoreFull"}
    assert wanted <= told, wanted - told
    assert len(wanted) > 150, len(wanted)


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
