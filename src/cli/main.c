/* SPDX-License-Identifier: Apache-2.0 */
/* nigh: finds the verb and runs it. The table below is the whole of the command line. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "base/json.h"
#include "cli/region_help.h"
#include "cli/space_help.h"

const struct cli_verb cli_verbs[] = {
    {"put", "NAME FILE|-", "Put a file, or standard input, as an object.",
     "  -m, --meta TEXT      user metadata kept with the object\n"
     "      --no-evict       fail rather than evict others\n"
     "  -r, --replicas N     have N nodes hold it (to 8): ends when they do; they are made again "
     "when\n"
     "                       a node dies, and not evicted\n"
     "      --no-claim       do not ask first whether another node has the name\n",
     cli_put},
    {"get", "NAME [-o FILE]", "Write an object to a file, or to standard output.",
     "  -o, --output FILE    write there (complete or not at all)\n"
     "  -m, --meta           write the user metadata instead of the data\n"
     "  -n, --no-copy        leave no copy of another node's object on this one\n"
     "Without --timeout: does not wait where the node is alone, and 5 seconds where there are "
     "others.\nWhat does not come while a node that may have it is not up: exit code 1 without "
     "--timeout, 7 with it.\n",
     cli_get},
    {"ls", "[PREFIX]", "List the objects of the pool.",
     "  -i, --ids            show ids, too\n"
     "PREFIX is what names begin with: there are no patterns.\n",
     cli_ls},
    {"stat", "NAME...", "Show what is known of objects.",
     "  -c, --checksum       also the CRC32C of the data\n", cli_stat},
    {"rm", "NAME...", "Delete objects, on every node of the cluster.",
     "One in use, or being written to disk, is gone at once for new readers; its memory is freed "
     "later,\nand rm says so: who holds it reads on. A pin ('nigh pin') keeps none from rm. Where "
     "another node\nmay have one and does not answer in 5 seconds, it is deleted on this node, and "
     "rm fails and says so.\n",
     cli_rm},
    {"pin", "NAME...", "Keep objects from eviction until unpinned.", "", cli_pin},
    {"unpin", "NAME...", "Let objects be evicted again.", "", cli_unpin},
    {"who", "[NAME]",
     "Show which processes hold an object (or the pool), and why it cannot be evicted.", "",
     cli_who},
    {"locate", "NAME...", "Show which nodes hold the bytes of objects, the one with most first.",
     "What is on no node is counted, and who is not up, and may have it, is named; where that is "
     "all of\nthem: exit code 3.\n",
     cli_locate},
    {"nodes", "", "Show the nodes of the cluster, as this one sees them.",
     "CROSSOVER: larger objects are read from that node's memory, smaller ones sent by it.\n"
     "  -m, --measure        measure it anew first: some MiB from each node, when nothing else "
     "goes on\n",
     cli_nodes},
    {"leave", "", "Hand over what only this node holds, so that it can be stopped without loss.",
     "  -u, --undo           the node takes puts again\n"
     "  -l, --look           only say how it stands\n"
     "It takes nothing new from then on. Ends when all is on nodes that stay (exit code 0), or the "
     "rest\ncannot be (1, and why), or after --timeout (7; 60 seconds without), and goes on until "
     "the node is\nstopped. For root and the uid that the node runs as.\n",
     cli_leave},
    {"forget", "RANK|NAME|ADDRESS",
     "Strike a node that joined, and is gone for good, off the cluster.",
     "Its rank is nobody's from then on, and is not given again; its address and its name are "
     "free: "
     "a machine\nthat was set up anew joins anew. What only it held is lost, with replicas less "
     "than was asked for until\nthey are made again. A node that lives is not struck off: have it "
     "leave ('nigh leave') and stop it. Should\nit come back after all, it is told, and ends. "
     "Waits "
     "until that is decided, 60 seconds or --timeout.\nFor root and the uid that the node runs "
     "as.\n",
     cli_forget},
    {"call", "SERVICE [REQUEST]", "Call a service by name, and print its reply.",
     "  -n, --node RANK|NAME the node that serves it (default: any that does, this one first)\n"
     "  -N, --near NAME      of the nodes that do, the one that holds most bytes of this object;\n"
     "                       may be given again: of all of them\n"
     "  -a, --all            all nodes, over a tree; a line for each reply\n"
     "  -r, --ranks LIST     these nodes, likewise: 0,2,4; a node's name does, too\n"
     "  -i, --idempotent     it may be carried out twice: try again until the timeout\n"
     "  -o, --one-way        want no reply: end when the message is on its way\n"
     "  -u, --urgent         go before other calls that wait for the same node\n"
     "Without REQUEST it is read from standard input. Without --timeout: 5 seconds.\n"
     "The reply is printed as it is, without a line's end.\n"
     "A service that no node has, or not that one: exit code 3; one that answered an error: 10.\n",
     cli_call},
    {"region", "ACTION NAME ...",
     "Make, list, read, write, move and remove regions: named memory of the cluster.",
     REGION_HELP_CREATE REGION_HELP_LS REGION_HELP_STAT REGION_HELP_READ REGION_HELP_WRITE
         REGION_HELP_MOVE REGION_HELP_CHMOD REGION_HELP_RESIZE REGION_HELP_RM REGION_HELP_ALL,
     cli_region},
    {"space", "ACTION NAME ...",
     "Make, list, read, write and remove spaces: one coherent memory of all nodes.",
     SPACE_HELP_CREATE SPACE_HELP_LS SPACE_HELP_STAT SPACE_HELP_ALLOC SPACE_HELP_FREE
         SPACE_HELP_READ SPACE_HELP_WRITE SPACE_HELP_RM SPACE_HELP_ALL,
     cli_space},
    {"top", "", "Watch the node live.",
     "  -1, --once           print once and exit\n"
     "  -d, --delay TIME     time between pictures (default 1s)\n",
     cli_top},
    {"doctor", "", "Look for what keeps nigh from working well here, with remedies.",
     "  -c, --config FILE    look at what this file tells nighd (default: what the node that "
     "answers was\n                       started with; else /etc/nigh/nighd.conf)\n"
     "Exit code 0: nothing is bad; 1: a finding is bad; 4: none is, but no node answers.\n",
     cli_doctor},
    {"support", "", "Collect a report for whoever is to help, without names and secrets.",
     "  -o, --output FILE    where it goes, - for standard output (default: nigh-support-TIME.txt "
     "here)\n"
     "  -l, --log FILE       the node's log (default: the file that it writes to, if it does)\n"
     "  -c, --config FILE    what nighd is told (default: what the node that answers was started "
     "with)\n"
     "      --names          keep names of hosts, users, pools, files, and addresses\n"
     "It has no names and bytes of objects, regions and spaces, keys or passwords. What else nigh "
     "does not\nsay itself becomes ~ and eight digits. It says what is in it: look through it "
     "before you send it.\n",
     cli_support},
    {"cluster", "start|stop|ls", "Start, stop or show a local cluster for trying things.",
     "start [N] [-- OPTION...]  starts N nodes (1 to 8; without it 3) on this machine's loopback, "
     "and ends when\n                       they have agreed on who is there. Prints words for a "
     "shell:\n                       eval \"$(nigh cluster start)\"\n"
     "                       OPTION: of nighd, for each; %r in one is the node's rank, %% is %. "
     "Where these\n                       say nothing else, each has --memory 64M, "
     "--lanes 1, --region-memory\n                       256M and the same for --space-memory\n"
     "stop                   ends its nodes, and removes all that start made\n"
     "ls                     shows its nodes; exit code 1: one has died, or does not answer\n"
     "  -d, --dir DIR        where its files are (default: $XDG_RUNTIME_DIR/nigh-cluster,\n"
     "                       else /tmp/nigh-cluster-UID)\n"
     "      --nighd PROGRAM  what the nodes are (default: nighd beside nigh, else in $PATH)\n"
     "Exit code 3: no cluster is there; 9: start found one. A start that fails, or is interrupted, "
     "leaves\nnothing. --timeout: how long nodes may take to start (60s) or to end (10s; then they "
     "are killed).\n",
     cli_cluster},
    {"bench", "WHAT", "Measure objects, transfer, rpc, region or space, here or at another node.",
     "objects takes some seconds, and at most 4 MiB of the node's memory at a time; transfer needs "
     "a cluster,\nsome 180 MiB of the memory of the node that offers, 64 MiB of the other, and "
     "some seconds.\nWhat they put is deleted at the end.\n"
     "rpc takes some seconds: each of its four rows (two with --node, half as many with --at-once) "
     "five at most,\nand is printed when it is there; with --timeout they share that time.\n"
     "region takes some seconds, and somewhat more than a MiB of what the node that is measured "
     "has for regions:\nit makes one there, and frees it at the end.\n"
     "space takes some seconds, and 3 MiB of what each node has for spaces (nighd --space-memory): "
     "it makes\none, and deletes it at the end.\n"
     "  -o, --offer          transfer: put what 'nigh bench transfer' at another node will get\n"
     "  -w, --withdraw       transfer: delete what was offered and not taken\n"
     "  -n, --node RANK|NAME rpc: call 'nigh bench rpc --serve' at that node (default: a server "
     "of its own, here)\n"
     "                       region, space: where its bytes lie (default: here)\n"
     "  -S, --serve          rpc: answer such calls until interrupted, or for --timeout\n"
     "  -a, --at-once N      rpc: calls under way (default: 1, and then 64)\n"
     "  -z, --size SIZE      rpc: of request and reply (default: 64)\n"
     "                       region: of reads and writes (default: 64, 4 KiB, 64 KiB and 1 MiB)\n",
     cli_bench},
    {"help", "[VERB]", "Show help.", "", cli_help},
    {NULL, NULL, NULL, NULL, NULL},
};

static void print_verbs(FILE *file)
{
    fputs("usage: nigh VERB [OPTION...] [ARGUMENT...]\n\nObjects that the processes of a machine "
          "share in place.\n\n",
          file);
    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        fprintf(file, "  %-7s %-18s %s\n", verb->name, verb->arguments, verb->summary);
    }
    fputs("\nEvery verb takes --socket PATH, --pool POOL, --json, --timeout TIME, --help, before "
          "it or after it\n(get --json needs --output FILE: the object takes standard output).\n"
          "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 no node, 5 denied, 6 full, "
          "7 timeout,\n"
          "8 corrupt, 9 exists, 10 what a service answered. See nigh(1).\n",
          file);
}

static int no_such_verb(const struct cli *cli, const char *word)
{
    const char *nearest = cli_nearest_verb(word);

    return nearest == NULL
               ? cli_usage(cli, "there is no verb '%s'", word)
               : cli_usage(cli, "there is no verb '%s' (did you mean '%s'?)", word, nearest);
}

static void print_verb_json(struct json *json, const struct cli_verb *verb)
{
    json_object_open(json, NULL);
    json_string(json, "verb", verb->name);
    json_string(json, "arguments", verb->arguments);
    json_string(json, "summary", verb->summary);
    json_string(json, "options", verb->options);
    json_object_close(json);
}

static int help_of_all(const struct cli *cli)
{
    struct json json = {0};

    if (!cli->json) {
        print_verbs(stdout);
        return CLI_OK;
    }
    json_array_open(&json, NULL);
    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        print_verb_json(&json, verb);
    }
    json_array_close(&json);
    return CLI_OK;
}

static int help_of_one(struct cli *cli, const struct cli_verb *verb)
{
    struct json json = {0};
    int exit_code = CLI_OK;

    if (cli->json) {
        print_verb_json(&json, verb);
        return CLI_OK;
    }
    cli->verb = verb->name;
    cli_common_option(cli, 'h', &exit_code);
    return exit_code;
}

int cli_help(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'h') {
            print_verbs(stdout);
            return CLI_OK;
        }
        if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc - optind > 1) {
        return cli_usage(cli, "help takes at most one VERB");
    }
    if (argc == optind) {
        return help_of_all(cli);
    }
    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        if (strcmp(verb->name, argv[optind]) == 0) {
            return help_of_one(cli, verb);
        }
    }
    return no_such_verb(cli, argv[optind]);
}

/* Standard output may be a full disk or a closed pipe: a result that was not written is a failure.
 */
static int flush_output(const struct cli *cli, int exit_code)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && exit_code == CLI_OK) {
        cli_error(cli, "cannot write standard output");
        return CLI_FAILED;
    }
    return exit_code;
}

/*
 * A standard descriptor that is closed would become the next file that is opened, and an object
 * would be written to the node's socket. It becomes one that fails instead.
 */
static bool fill_standard_descriptors(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) {
            return false;
        }
    }
    return true;
}

/* Whether --json is among the words: a wrong option may stand before it. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "-j") == 0) {
            return true;
        }
    }
    return false;
}

static void print_version(bool as_json)
{
    struct json json = {0};

    if (!as_json) {
        puts("nigh " NIGH_VERSION_STRING);
        return;
    }
    json_object_open(&json, NULL);
    json_string(&json, "version", NIGH_VERSION_STRING);
    json_object_close(&json);
}

/*
 * Takes the options that stand before the verb; optind is then where the verb is. Returns CLI_OK,
 * or -1 when main is to return *exit_code.
 */
static int take_leading_options(struct cli *cli, int argc, char **argv, int *exit_code)
{
    static const struct option options[] = {
        {"version", no_argument, NULL, 'V'}, CLI_COMMON_OPTIONS, {0}};
    int option;

    /* "+": the first word that is no option is the verb. */
    while ((option = cli_next_option(cli, argc, argv, "+:" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'V') {
            print_version(cli->json || asks_for_json(argc, argv));
            *exit_code = CLI_OK;
            return -1;
        }
        if (option == 'h') {
            print_verbs(stdout);
            *exit_code = CLI_OK;
            return -1;
        }
        if (cli_common_option(cli, option, exit_code) != CLI_OK) {
            return -1;
        }
    }
    return CLI_OK;
}

static int run_verb(struct cli *cli, int argc, char **argv)
{
    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        if (strcmp(verb->name, argv[0]) == 0) {
            int exit_code;

            cli->verb = verb->name;
            optind = 0; /* getopt begins anew, with other options */
            exit_code = verb->run(cli, argc, argv);
            nigh_client_close(cli->client);
            return exit_code;
        }
    }
    return no_such_verb(cli, argv[0]);
}

int main(int argc, char **argv)
{
    struct cli cli = {.verb = ""};
    struct json json = {0};
    int exit_code;

    if (!fill_standard_descriptors()) {
        return CLI_FAILED;
    }
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write */
    if (argc < 2) {
        print_verbs(stderr);
        return CLI_USAGE;
    }
    if (take_leading_options(&cli, argc, argv, &exit_code) == CLI_OK) {
        exit_code = optind < argc ? run_verb(&cli, argc - optind, argv + optind)
                                  : cli_usage(&cli, "no verb is given");
    }
    cli.json = cli.json || (exit_code == CLI_USAGE && asks_for_json(argc, argv));
    cli_error_object(&cli, &json, exit_code);
    return flush_output(&cli, exit_code);
}
