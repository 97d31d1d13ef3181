#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the pages tell a reader to type is typed: README.md, CONTRIBUTING.md and each of docs/, as docs/README.md says that they
are written, and the examples of nigh(1).

    sh               commands: run one block behind the other, in one bash a page that ends at the first that fails
    text             behind one of those, what it prints: a line ... stands for any lines, and ... in a line for any words
    c, python, ...   where the paragraph before begins with `name`, or ends with `name`: that file, as it stands

A block of commands behind *Not run here* and a reason is not run. A program is such a file, and commands behind it use it. Every page
has a machine of its own: a /tmp, a network, and processes, none of which it may leave. docs.py --list PAGE... says which blocks are
what; docs.py PAGE... runs these pages alone."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import textwrap

SOURCE = os.environ.get("NIGH_SOURCE", os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..")))
BUILD = os.environ.get("NIGH_BUILD", os.path.join(SOURCE, "build", "test"))
PAGE_SECONDS = 120
# What a block may be written in; sh and text have a meaning here.
LANGUAGES = {"sh", "text", "c", "cpp", "python", "ini", "mermaid", "json", "yaml", "promql"}
NOT_RUN = re.compile(r"\*Not run here\b[^*]*[:,] *\w[^*]*\*|\*Not run here\*[:,] *\w")
FILE = re.compile(r"^`([\w-]+\.\w+)`[ .]|`([\w-]+\.\w+)`:$")
# These have programs in Python that tests/python/pages.py runs.
RUN_BY_PYTHON = {"README.md", os.path.join("docs", "python.md")}
SKIPPED = 77


class Block:
    """A fenced block: its language, the first line of its text and that; what the paragraph before it says."""

    def __init__(self, language, line, before):
        self.language, self.line, self.before, self.lines = language, line, before, []

    @property
    def text(self):
        return textwrap.dedent("".join(self.lines))

    @property
    def is_run(self):
        return self.language == "sh" and not NOT_RUN.search(self.before)

    @property
    def file(self):
        name = FILE.search(self.before.strip()) if self.language not in ("sh", "text") else None
        return name and (name[1] or name[2])

    def kind(self):
        if self.file:
            return "file " + self.file
        return self.language if self.language != "sh" else "run" if self.is_run else "not run"


def examples_of(lines):
    """Of a manual page in scdoc what stands under EXAMPLES, as another page has it: commands, a backslash that is one."""
    heading, is_inside, found = "", False, []
    for line in lines:
        if line == "```\n":
            is_inside = not is_inside
            line = "```sh\n" if is_inside else line
        elif line.startswith("# ") and not is_inside:
            heading = line
        found.append(line.replace("\\\\", "\\") if heading == "# EXAMPLES\n" else "\n")
    return found


def blocks_of(page):
    """All of a page; an error where one is not written as it is to be."""
    with open(page, encoding="utf-8") as file:
        lines = file.readlines()
    lines = examples_of(lines) if page.endswith(".scd") else lines
    blocks, inside, paragraph, is_over = [], None, "", True
    for number, line in enumerate(lines, 1):
        fence = re.match(r" *```(.*)$", line)
        if inside is not None:
            if fence is None:
                inside.lines.append(line)
                continue
            blocks.append(inside)
            inside, paragraph, is_over = None, "", True
        elif fence is not None:
            if fence[1].strip() not in LANGUAGES:
                raise SystemExit(f"{page}:{number}: a block of no known language: {fence[1]!r}: one of {', '.join(sorted(LANGUAGES))}")
            inside = Block(fence[1].strip(), number + 1, paragraph)
        elif line.strip():
            paragraph, is_over = line if is_over else paragraph + line, False
        else:
            is_over = True
    if inside is not None:
        raise SystemExit(f"{page}:{inside.line}: a block without an end")
    check_programs(page, blocks)
    return blocks


def check_programs(page, blocks):
    """An error where a program is one that no commands use, nor another program."""
    for n, block in enumerate(blocks):
        is_program = block.language == "python" or (block.language == "c" and re.search(r"^int main\(", block.text, re.M))
        if block.file:
            used = rf"{re.escape(block.file)}|^(from|import) {re.escape(os.path.splitext(block.file)[0])}\b"
            if not any(re.search(used, later.text, re.M) for later in blocks[n + 1:] if later.is_run or later.file):
                raise SystemExit(f"{page}:{block.line}: no commands behind it use {block.file}")
        elif is_program and os.path.relpath(page, SOURCE) not in RUN_BY_PYTHON:
            raise SystemExit(f"{page}:{block.line}: a program without a name: \"`name`:\" ends the paragraph before")


def matches(expected, told):
    """Whether lines are as the page shows them."""
    if not expected:
        return not told
    if expected[0].strip() == "...":
        return any(matches(expected[1:], told[n:]) for n in range(len(told) + 1))
    words = ".*".join(re.escape(part) for part in expected[0].rstrip().split("..."))
    return bool(told) and re.fullmatch(words, told[0].rstrip()) is not None and matches(expected[1:], told[1:])


def script_of(blocks, folder):
    """What bash is given: each block with its output in a file of its own, where the page shows what it prints."""
    script = ["set -e -o pipefail"]
    for n, block in enumerate(blocks):
        if block.file:
            path = os.path.join(folder, f"file-{n}")
            with open(path, "w", encoding="utf-8") as file:
                file.write(block.text)
            script += [f"mkdir -p $(dirname {block.file}); cp {path} {block.file}"]
        elif block.is_run:
            script += [f"echo {block.line} >{folder}/line"]
            if n + 1 < len(blocks) and blocks[n + 1].language == "text":
                # In this shell, so that what it sets and starts stays.
                script += [f"exec 8>&1 9>&2 >{folder}/out-{n} 2>&1", block.text, "exec >&8 2>&9 8>&- 9>&-"]
            else:
                script += [block.text]
    return "\n".join(script + [f"echo 0 >{folder}/line", ""])


# The machine of a page: what it starts ends with it. What is left of nodes when it ends is told.
MACHINE = """
set -e
mount -t proc proc /proc && ip link set lo up
mkdir "$NIGH_DOCS/source" "$NIGH_DOCS/build"
mount --bind "$NIGH_SOURCE" "$NIGH_DOCS/source" && mount --bind "$NIGH_BUILD" "$NIGH_DOCS/build"
mount -t tmpfs -o size=2g,mode=1777 nigh-docs /tmp
# These may lie in the /tmp that is not seen any more.
mkdir -p "$NIGH_SOURCE" && mount --bind "$NIGH_DOCS/source" "$NIGH_SOURCE"
mkdir -p "$NIGH_BUILD" && mount --bind "$NIGH_DOCS/build" "$NIGH_BUILD"
mkdir /tmp/checkout && cd /tmp/checkout
for entry in "$NIGH_SOURCE"/* ; do case $entry in */build) ;; *) ln -s "$entry" . ;; esac; done
mkdir build && ln -s "$NIGH_BUILD" build/release
status=0
bash "$NIGH_DOCS/script" >"$NIGH_DOCS/told" 2>&1 || status=$?
ps -eo args | grep '[n]ighd ' >"$NIGH_DOCS/left" || true
exit $status
"""


def environment(folder):
    uninstalled = os.path.join(BUILD, "meson-uninstalled")
    return dict(
        {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ},
        PATH=":".join([os.path.join(BUILD, "src", "daemon"), os.path.join(BUILD, "src", "cli"), "/usr/bin:/bin:/usr/sbin:/sbin"]),
        HOME="/tmp", USER="root", NIGH_SOURCE=SOURCE, NIGH_BUILD=BUILD, NIGH_DOCS=folder,
        PKG_CONFIG_PATH=uninstalled, LD_LIBRARY_PATH=os.path.join(BUILD, "src", "client"),
        PYTHONPATH=os.path.join(BUILD, "bindings", "python"), PYTHONDONTWRITEBYTECODE="1",
    )


def run(page, blocks):
    """What is wrong with a page, or None."""
    # /var/tmp: a page sees no /tmp but its own.
    with tempfile.TemporaryDirectory(prefix="nigh-docs-", dir="/var/tmp") as folder:
        with open(os.path.join(folder, "script"), "w", encoding="utf-8") as script:
            script.write(script_of(blocks, folder))
        ends = subprocess.run(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "timeout", str(PAGE_SECONDS), "bash", "-c", MACHINE],
            env=environment(folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

        def read(name):
            path = os.path.join(folder, name)
            return open(path, encoding="utf-8", errors="replace").read() if os.path.exists(path) else ""

        line = read("line").strip()
        if ends.returncode != 0 or line != "0":
            last = [read(f"out-{n}") for n, block in enumerate(blocks) if str(block.line) == line]
            told = ends.stdout.decode(errors="replace") + read("told") + "".join(last)
            return f"{page}:{line}: status {ends.returncode} of this block:\n{told[-3000:]}"
        for n, block in enumerate(blocks[1:], 1):
            if block.language == "text" and blocks[n - 1].is_run:
                told = read(f"out-{n - 1}")
                if not matches(block.text.splitlines(), told.splitlines()):
                    return f"{page}:{block.line}: the page shows\n{block.text}but it printed\n{told}"
        return f"{page}: nodes are left:\n{read('left')}" if read("left") else None


def strings_of_source():
    """All that programs may print, as one text: literals that stand behind each other are one."""
    texts = []
    for path in glob.glob(os.path.join(SOURCE, "src", "**", "*.[ch]"), recursive=True) + [os.path.join(SOURCE, "include", "nigh", "status.h")]:
        with open(path, encoding="utf-8") as file:
            texts.append(re.sub(r'"\s*"', "", re.sub(r"\\\n", "\n", file.read())))
    return "\n".join(texts)


def messages_gone(page):
    """Messages in the first column of a page's tables that no program prints; what varies in them is written as \u2026."""
    with open(page, encoding="utf-8") as file:
        messages = re.findall(r"^\| `([^`]+)`", file.read(), re.MULTILINE)
    assert messages
    source = strings_of_source()
    return [message for message in messages if not all(part.strip() in source for part in message.split("\u2026"))]


def may_have_machines():
    return subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def main():
    words = [word for word in sys.argv[1:] if word != "--list"]
    pages = words or [*(os.path.join(SOURCE, name) for name in ("README.md", "CONTRIBUTING.md")),
                      *sorted(glob.glob(os.path.join(SOURCE, "docs", "*.md"))), os.path.join(SOURCE, "man", "nigh.1.scd")]
    parts = {page: blocks_of(page) for page in pages}
    if "--list" in sys.argv[1:]:
        for page, blocks in parts.items():
            for block in blocks:
                print(f"{os.path.relpath(page, SOURCE)}:{block.line}: {block.kind()}")
        return 0
    if not may_have_machines():
        print("this user may not make namespaces (unshare)")
        return SKIPPED
    failed = 0
    if not words:
        for message in messages_gone(os.path.join(SOURCE, "docs", "faq.md")):
            print(f"docs/faq.md: nothing prints: {message}")
            failed += 1
    for page, blocks in parts.items():
        count = sum(block.is_run for block in blocks)
        why = run(page, blocks) if count > 0 else None
        failed += why is not None
        print(why or f"{os.path.relpath(page, SOURCE)}: {count} blocks of commands run", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
