#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2317 # backquotes are text here; functions are called by expect
# The checks in tools/ find what they are for, and nothing else: each on a small tree made here. TAP.
set -u

unset NIGH_RUN_SEED # of the run that this is a part of
tools=$(realpath "$(dirname "$0")/../../tools")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
number=0
failures=0

# expect STATUS TEXT NAME COMMAND...: the command exits with STATUS and prints TEXT ("" for anything).
expect() {
    local status=$1 text=$2 name=$3 output got=0
    shift 3
    number=$((number + 1))
    output=$("$@" 2>&1) || got=$?
    if [ "$got" = "$status" ] && { [ -z "$text" ] || [[ $output == *"$text"* ]]; }; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        echo "# status $got, wanted $status; output: ${output//$'\n'/ / }"
        failures=$((failures + 1))
    fi
}

plant() {
    mkdir -p "$(dirname "$tree/$1")"
    printf '%b' "$2" >"$tree/$1"
}

mkdir -p "$tree/tools" "$tree/tests/mutants"
cp "$tools"/* "$tree/tools/"
git -C "$tree" init -q
sed -i 's/^DAYS = .*/DAYS = 8/' "$tree/tools/test-mutants" # each is a start of it
plant .clang-format 'BasedOnStyle: LLVM\n'
plant src/base/a.h '/* A. */\n#include "nigh/status.h"\n'
plant src/memory/a.h '/* A. */\n#include "base/a.h"\n#include <stdint.h>\n'
plant src/object/a.h '/* A. */\n#include "memory/a.h"\n'
plant src/region/a.h '/* A. */\n#include "memory/a.h"\n'
plant include/nigh/status.h '/* Status. */\n'

expect 0 "" "layers: downward includes pass" "$tree/tools/check-layers"
plant src/base/b.c '/* B. */\n#include "memory/a.h"\n'
expect 1 "src/base/b.c:2: memory/a.h: base may not include memory" "layers: upward" "$tree/tools/check-layers"
plant src/base/b.c '/* B. */\n#  include <memory/a.h>\n'
expect 1 "may not include" "layers: upward in angle brackets" "$tree/tools/check-layers"
plant src/base/b.c '/* B. */\n#include "a.h"\n'
expect 1 "without its folder" "layers: no folder" "$tree/tools/check-layers"
rm "$tree/src/base/b.c"
plant src/object/b.c '/* B. */\n#include "region/a.h"\n'
expect 1 "object may not include region" "layers: sideways" "$tree/tools/check-layers"
rm "$tree/src/object/b.c"
plant src/cli/b.c '/* B. */\n#include "object/a.h"\n'
expect 1 "cli may not include object" "layers: the command line" "$tree/tools/check-layers"
rm "$tree/src/cli/b.c"
plant include/nigh/b.h '/* B. */\n#include "base/a.h"\n'
expect 1 "only public headers" "layers: a public header" "$tree/tools/check-layers"
rm "$tree/include/nigh/b.h"

expect 0 "" "words: a clean tree passes" "$tree/tools/check-words"
# Written in two halves, or this file would be found too.
plant src/base/b.c "/* B. */\n/* TO""DO */\n"
expect 1 "src/base/b.c:2" "words: unfinished" "$tree/tools/check-words"
plant src/base/b.c 'int b;\n'
expect 1 "does not begin" "words: no comment at the head" "$tree/tools/check-words"
rm "$tree/src/base/b.c"
plant tests/unit/b.c '/* B. */\nvoid f(void) { usleep(1); }\n'
expect 1 "tests/unit/b.c:2" "words: a test that sleeps" "$tree/tools/check-words"
rm "$tree/tests/unit/b.c"
plant docs/b.md 'text \n'
expect 1 "docs/b.md:1" "words: trailing blanks" "$tree/tools/check-words"

plant docs/b.md 'see [a](c.md) and `src/base/a.h`\n'
expect 1 "docs/b.md:1: c.md is not there" "links: a page that is missing" "$tree/tools/check-links"
plant docs/b.md 'see `src/base/gone.h`\n'
expect 1 "src/base/gone.h" "links: a file that is missing" "$tree/tools/check-links"
plant docs/b.md '# A: `b` of c\n\nsee [a](b.md#y)\n'
expect 1 "docs/b.md:3: b.md has no heading #y" "links: a heading that is missing" "$tree/tools/check-links"
plant docs/b.md '# A: `b` of c\n\nsee [a](b.md#a-b-of-c), [b](https://a.b/), [c](#a-b-of-c) and `src/base/a.h`\n'
expect 0 "" "links: what is there passes" "$tree/tools/check-links"

plant src/base/log.h '/* Log. */\n#define LOG_LINE_BYTES 120\n#define LOG_WARN(message, ...) LOG_AT(message, __VA_ARGS__)\n'
plant src/base/b.c '/* B. */\nvoid f(void)\n{\n    LOG_WARN("it broke", "errno=%d", errno);\n}\n'
expect 1 "src/base/b.c:4: does not say what to do at its end: it broke" "log: a warning without a word of what to do" "$tree/tools/check-log"
plant src/base/b.c '/* B. */\nvoid f(void)\n{\n    LOG_ERROR("it broke");\n}\n'
expect 1 "does not say what to do at its end: it broke" "log: an error without fields" "$tree/tools/check-log"
plant src/base/b.c '/* B. */\nvoid f(void)\n{\n    LOG_WARN("it broke", "do=\\"mend it well\\" errno=%d", errno);\n}\n'
expect 1 "does not say what to do at its end: it broke" "log: what to do is not last" "$tree/tools/check-log"
plant src/base/b.c '/* B. */\nvoid f(void)\n{\n    LOG_WARN("it broke", "do=\\"mend it\\" do=\\"see to it\\"");\n}\n'
expect 1 "says twice what to do: it broke" "log: what to do is there twice" "$tree/tools/check-log"
plant src/base/b.c '/* B. */\nvoid f(void)\n{\n    LOG_WARN("it broke", "do=\\"nothing can help\\"");\n}\n'
expect 1 "says too little of what to do: it broke" "log: nothing, and not what was done" "$tree/tools/check-log"
plant src/base/b.c '/* B. */\nvoid f(void)\n{\n    LOG_WARN("it broke, and all of that is told here", "do=\\"see to the machine\\"");\n}\n'
expect 1 "is longer than half of the 120 bytes of a line" "log: what to do may be cut off" "$tree/tools/check-log"
plant src/base/b.c '/* B. */\nvoid f(void)\n{\n    LOG_INFO("it works", "a=1 path=%s", path);\n}\n'
expect 1 "src/base/b.c:4: has a path without quotes: path=%s" "log: a path without quotes" "$tree/tools/check-log"
plant src/base/b.c '/* B. */\nconst char *f(void)\n{\n    return "time=%s level=warn msg="\n           "\\"it broke\\"\\n";\n}\n'
expect 1 'src/base/b.c:4: does not say what to do at its end: msg=\"it broke\"' "log: a line that is put together without LOG_WARN" "$tree/tools/check-log"
plant src/base/b.c '/* B. */\nvoid f(void)\n{\n    LOG_WARN("it "\n             "broke", /* (why */\n             "a=%s" B " do=\\"see "\n             "to it\\"", g(1, ")"));\n    LOG_ERROR("it broke", "do=\\"%s\\"", what_to_do(1));\n    LOG_WARN("it broke", "do=\\"nothing: it is mended\\"");\n    LOG_INFO("it works");\n    LOG_INFO("path=%s", "path=\\"%s\\" a=\\"%s\\"", path, "path=%s");\n    (void)strstr("level=warn", "level=error a=1 do=\\"mend it\\"\\n");\n}\n'
expect 0 "" "log: what to do passes" "$tree/tools/check-log"
rm "$tree/src/base/b.c" "$tree/src/base/log.h"

plant tests/unit/c_test.c '/* C. */\n    cmocka_unit_test(test_c),\n    MY_TEST(defect_07_c),\nvoid test_not_run(void)\n'
plant tests/unit/d_test.py '"""D."""\ndef test_d():\n'
plant docs/b.md '`test_c` `test_d`\n'
expect 1 "tests: defect_07_c stands in no page" "tests: a defect that no page tells" "$tree/tools/check-tests"
plant docs/b.md '`test_c` `test_d` `defect_07_c`\n'
expect 0 "" "tests: what is run passes" "$tree/tools/check-tests"
plant docs/b.md '`defect_07_c`\n`test_not_run`\n'
expect 1 "docs/b.md:2: no test test_not_run is run" "tests: one that is not run" "$tree/tools/check-tests"

plant include/nigh/m.h '/* M. */\ntypedef struct nigh_m {\n    int a; /* A. */\n    int b;\n} nigh_m;\nNIGH_API int nigh_do(nigh_m *m);\n'
plant man/meson.build "'nigh_do.3': []\\n"
page='nigh_do(3)\n\n# NAME\n\nnigh_do - does\n\n```\n'
plant man/nigh_do.3.scd "$page"'```\n'
expect 1 "no page shows nigh_m" "man: a struct on no page" "$tree/tools/check-man"
plant man/nigh_do.3.scd "$page"'typedef struct nigh_m {\n    int a;\n} nigh_m;\n```\n'
expect 1 "man/nigh_do.3.scd: nigh_m is not the header's: int b" "man: a field that is missing" "$tree/tools/check-man"
plant man/nigh_do.3.scd "$page"'typedef struct nigh_m {\n    long a;\n    int b;\n} nigh_m;\n```\n'
expect 1 "nigh_m is not the header's: int a long a" "man: a field of another type" "$tree/tools/check-man"
plant man/nigh_do.3.scd "$page"'typedef struct nigh_m {\n    int a; /* of A */\n    int b;\n} nigh_m;\n```\n'
expect 0 "" "man: a struct as the header has it" "$tree/tools/check-man"
plant src/cli/main.c 'const struct cli_verb cli_verbs[] = {\n    {"put", "NAME", "Puts.",\n     "  -r, --really         do it\\n",\n     cli_put},\n    {NULL, NULL\n'
expect 1 "man/nigh.1.scd: nothing of put" "man: a verb without a line" "$tree/tools/check-man"
plant man/nigh.1.scd '*put* _NAME_\n'
expect 1 "man/nigh.1.scd: nothing of --really" "man: an option that nobody tells of" "$tree/tools/check-man"
plant man/nigh.1.scd '*put* _NAME_\n\tWith *--really* it does.\n'
expect 0 "" "man: a verb as the program has it" "$tree/tools/check-man"
plant src/daemon/options.c '    [OPTION_LANES] = {"lanes", "N", "threads"},\n'
plant man/nighd.8.scd '*--lane* _N_\n'
plant man/nighd.conf.5.scd 'The keys: *lane*.\n'
expect 1 "man/nighd.8.scd: nothing of lanes" "man: an option of nighd without a line" "$tree/tools/check-man"
plant man/nighd.8.scd '*--lanes* _N_\n'
expect 1 "man/nighd.conf.5.scd: nothing of lanes" "man: a key without a word" "$tree/tools/check-man"
plant man/nighd.conf.5.scd 'The keys: *lanes*.\n'
expect 0 "" "man: an option as the program has it" "$tree/tools/check-man"
plant src/cli/cluster.c 'if (strcmp(job->action, "start") == 0)\n'
plant src/cli/main.c 'const struct cli_verb cli_verbs[] = {\n    {"put", "NAME", "Puts.",\n    {"cluster", "start", "Starts.",\n    {NULL, NULL\n'
expect 1 "man/nigh.1.scd: nothing of cluster start" "man: an action without a line" "$tree/tools/check-man"
plant man/nigh.1.scd '*put* _NAME_\n\n*cluster start* [_N_]\n'
expect 0 "" "man: an action as the program has it" "$tree/tools/check-man"
plant src/node/kept.c '#define KEPT_FILE "kept"\n#define NEW_FILE "kept.new"\n'
plant man/nigh-files.5.scd '_DIR/kept.new_, _lock.kept_\n'
expect 1 "man/nigh-files.5.scd: nothing of kept" "man: a file that a node makes, on no page" "$tree/tools/check-man"
plant debian/nighd.install 'usr/lib/*/libn.so.*\nusr/bin/n  bin\n'
plant man/nigh-files.5.scd '_DIR/kept_, _lib/libn.so_\n'
expect 1 "man/nigh-files.5.scd: nothing of n" "man: a file that a package installs, on no page" "$tree/tools/check-man"
plant man/nigh-files.5.scd '_DIR/kept_, _lib/libn.so_, _bin/n_\n'
expect 0 "" "man: files as they are made and installed" "$tree/tools/check-man"

plant a.json '{"name":"a","result":"OK","stdout":"1..2\\nok 1 - x\\nok 2 - y # SKIP no\\n"}\n'
plant b.json '{"name":"b","result":"FAIL","stdout":""}\n'
plant c.txt 'noise\n3 passed, 0 failed\nmore\n'
expect 0 "4 passed, 0 failed, 1 skipped" "totals: sums" "$tree/tools/totals" "$tree/a.json" "$tree/c.txt"
expect 1 "failed: b" "totals: names what failed" "$tree/tools/totals" "$tree/b.json"
expect 1 "0 passed, 1 failed" "totals: a missing file fails" "$tree/tools/totals" "$tree/none.json"
plant d.txt 'no totals here\n'
expect 1 "has no totals" "totals: a file without totals fails" "$tree/tools/totals" "$tree/d.txt"

plant tools/ci-budget.ini '; c\n[a]\nci_minutes = 2\n[b]\nci_minutes = 3\nsoak_minutes = 9\n'
expect 0 "a 2
b 3" "budget: all suites" "$tree/tools/budget" ci_minutes
expect 0 "9" "budget: one suite" "$tree/tools/budget" soak_minutes b
expect 1 "" "budget: none" "$tree/tools/budget" soak_minutes a

# What is shared out is in one turn each, what is not is in all; the next run's turns are others.
shares() {
    python3 - "$tree/tools/share" <<'END'
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("share", sys.argv[1])
share = importlib.util.module_from_spec(importlib.util.spec_from_loader("share", loader))
loader.exec_module(share)
tests = [{"name": n, "suite": [f"nigh:{s}"], "timeout": t, "priority": p} for n, s, t, p in
         (("a", "unit", 9, 0), ("b", "long", 5, 0), ("c", "long", 7, 3), ("d", "long", 5, 0), ("e", "other", 1, 0))]
for turn in range(3):
    print(" ".join(share.share(tests, turn, {"long": 2})), end="; ")
END
}
expect 0 "c a e d; a e b; c a e d; " "share: each has its turn, those that begin first before others" shares
expect 1 "usage" "share: no number" "$tree/tools/share" build 0 x long
expect 1 "usage" "share: no turn at all" "$tree/tools/share" build 0 long=0

# A bare machine: its compiler comes with tools/setup, when make has read all that it is to do.
plant bare/tools/setup '#!/bin/sh\nprintf "#!/bin/sh\\necho Free Software\\n" >cc && chmod +x cc\n'
plant bare/tools/configure '#!/bin/sh\necho "configure: $*"\n'
plant bare/tools/check-layers '#!/bin/sh\n'
plant bare/tools/compile '#!/bin/sh\n'
chmod +x "$tree"/bare/tools/*
# bare GOAL: make GOAL there, as if it had no compiler yet.
bare() {
    rm -f "$tree/bare/cc"
    env -u MAKEFLAGS make --no-print-directory -C "$tree/bare" -f "$tools/../Makefile" CC=./cc "$@" 2>&1
}
expect 0 "configure: build/release --buildtype=release -Db_lto=true" "make: the first build is as the next" bare all
expect 2 "no group named" "setup: an unknown group" "$tree/tools/setup" nonsense
# Somebody who is not root, on a machine that has nothing, with and without a sudo that asks for a password.
plant user/dpkg-query '#!/bin/sh\nexit 1\n'
plant user/id '#!/bin/sh\necho 1000\n'
chmod +x "$tree"/user/*
expect 1 "as root, run this and try again:
    apt-get update && apt-get install -y --no-install-recommends gcc " "setup: who may not install is told what root types" \
    env PATH="$tree/user" /bin/sh "$tree/tools/setup" build
plant user/sudo '#!/bin/sh\nexit 1\n'
chmod +x "$tree"/user/sudo
expect 1 "setup: missing packages; run this and try again:
    sudo apt-get update && sudo apt-get install -y --no-install-recommends gcc " "setup: with sudo where there is one" \
    env PATH="$tree/user" /bin/sh "$tree/tools/setup" build
expect 0 "1..0" "mutants: none" "$tree/tools/test-mutants" "$tree"
# Sixteen, the first of which a second commit touches.
for n in a b c d e f g h i j k l m n o p; do plant "tests/mutants/$n.patch" '# test: a\n# expect: b\n'; done
commit() { git -C "$tree" add tests/mutants && git -C "$tree" -c user.name=a -c user.email=a@a commit -q -m a; }
commit
# names DAY: what would be tried then, on one line.
names() { "$tree/tools/test-mutants" --day "$1" --list "$tree" | sed -n 's/\.patch$//p' | tr '\n' ' '; }
days=$(sed -n 's/^DAYS = \([0-9]*\).*/\1/p' "$tree/tools/test-mutants")
all_names() { for day in $(seq 20000 $((20000 + days - 1))); do names "$day"; done | tr ' ' '\n' | sort | tr '\n' ' '; }
expect 0 "a b c d e f g h i j k l m n o p " "mutants: each has its turn in its days, once" all_names
# Of parts that are all alike two are tried on each of half as many days.
most() { for day in $(seq 20000 $((20000 + days - 1))); do names "$day" | wc -w; done | sort -n | tail -n 1; }
expect 0 "2" "mutants: no day has more than its part" most
# Where one of seventeen takes as long as all others, it has one of four days for itself.
slow() {
    plant tests/mutants/zz.patch '# test: c\n# expect: b\n'
    sed 's/^LONG_SECONDS = {/&"c": 45, /;s/^DAYS = .*/DAYS = 4/' "$tree/tools/test-mutants" >"$tree/tools/slow-mutants"
    for day in 0 1 2 3; do
        python3 "$tree/tools/slow-mutants" --day "$day" --list "$tree" | sed '/^#/d;/^zz/d' | wc -l
    done | sort | tr '\n' ' '
    rm "$tree/tests/mutants/zz.patch" "$tree/tools/slow-mutants"
}
expect 0 "0 4 6 6 " "mutants: one that takes long has a day for itself" slow
expect 0 "of 16 on day 20000: part $((20000 % days + 1)) of $days; make mutants" "mutants: says how many" "$tree/tools/test-mutants" --day 20000 --list "$tree"
expect 0 "of 16 today: part $(($(date +%s) / 86400 % days + 1)) of $days; make mutants" "mutants: of today" \
    "$tree/tools/test-mutants" --day today --list "$tree"
expect 0 "of 16 today: part $((12345 % days + 1)) of $days" "mutants: of a run's seed" \
    env NIGH_RUN_SEED=12345 "$tree/tools/test-mutants" --day today --list "$tree"
expect 0 "$(names 20000)" "mutants: so many days later the same" names $((20000 + days))
expect 0 "does not apply" "mutants: those of other days" sh -c '"$1/tools/test-mutants" --day 20000 "$1" |
    sed -n "/not ok 1 - those of other days apply/,/^ok/p" | head -n 2' sh "$tree"
plant tests/mutants/a.patch '# test: a\n# expect: c\n'
expect 0 "$(printf 'a %.0s' $(seq "$days"))b c" "mutants: one that is not committed is tried on each day" all_names
commit
expect 0 "$(printf 'a %.0s' $(seq "$days"))b c" "mutants: one that the last commit touches is, too" all_names
plant tests/mutants/b.patch '# test: a\n# expect: c\n'
commit
expect 0 "a $(printf 'b %.0s' $(seq "$days"))c" "mutants: one of the commit before is not" all_names
plant tests/mutants/q.patch '# test: a\n# expect: b\n'
expect 0 "o p q q q " "mutants: one that is new to git is tried" all_names
expect 0 "and 2 that this change touches" "mutants: says so" sh -c 'for day in 1 2 3; do
    "$1/tools/test-mutants" --day "$day" --list "$1"; done' sh "$tree"

# some PATTERN: runs the tests of a script that match.
some() {
    NIGH_SOURCE="$tools/.." NIGH_TEST=$1 PYTHONPATH="$tools/../tests/system" python3 -c \
        'import raw_session, sys; sys.exit(raw_session.run_tests({"test_a_b": lambda: None, "test_c": lambda: 1 / 0}))'
}
expect 0 "ok a b" "scripts: those that NIGH_TEST names" some "a*"
expect 1 "not ok c" "scripts: a failure is one" some "?"
expect 1 "no test matches NIGH_TEST: d" "scripts: none is none" some "d"

plant small/build.ninja 'rule copy\n  command = cp $in $out\nbuild b: copy a\n'
plant small/a 'a\n'
expect 0 "" "compile: does what is to be done" "$tree/tools/compile" "$tree/small"
expect 1 "" "compile: and says nothing where there is nothing" sh -c '"$1" "$2" | grep -q .' sh "$tree/tools/compile" "$tree/small"
expect 0 "" "compile: has done it" cmp "$tree/small/a" "$tree/small/b"
rm "$tree/small/a" "$tree/small/b"
expect 1 "missing" "compile: a failure is one" "$tree/tools/compile" "$tree/small"

plant small/meson.build "project('small', 'c')\\nexecutable('small', 'small.c', install: true)\\n"
plant small/small.c 'int main(void)\n{\n    return 0;\n}\n'
expect 0 "" "configure: makes a build" "$tree/tools/configure" "$tree/small/build" "$tree/small"
expect 0 "" "compile: a program" "$tree/tools/compile" "$tree/small/build"
plant small/before "$(find "$tree/small/build" -name '*.o' -printf '%T@ %i')"
expect 0 "" "prefix: another one" "$tree/tools/set-prefix" "$tree/small/build" /opt/small
expect 0 "" "prefix: nothing is compiled for it" sh -c '"$1" "$2/build" &&
    [ "$(find "$2/build" -name "*.o" -printf "%T@ %i")" = "$(cat "$2/before")" ]' sh "$tree/tools/compile" "$tree/small"
expect 0 "/opt/small" "prefix: what lies there is for it" grep -r /opt/small "$tree/small/build/meson-info"
expect 2 "must begin with a slash" "prefix: a relative one" "$tree/tools/set-prefix" "$tree/small/build" small

echo "1..$number"
exit "$((failures > 0))"
