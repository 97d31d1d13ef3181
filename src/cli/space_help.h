/* SPDX-License-Identifier: Apache-2.0 */
/* What `nigh space --help` says, and of one action `nigh space ACTION --help`. */
#ifndef CLI_SPACE_HELP_H
#define CLI_SPACE_HELP_H

#define SPACE_HELP_CREATE                                                                         \
    "  create NAME SIZE     a space; SIZE: of its blocks at each node that serves spaces; it "    \
    "is yours\n"                                                                                  \
    "      --cache SIZE     of others' blocks that each keeps, about (default: SIZE)\n"           \
    "      --block SIZE     what is kept coherent as one: 64 to 4096 (default: 512)\n"            \
    "      --group RIGHTS   what your group may: of r (read), w (write)\n"                        \
    "      --others RIGHTS  what all others may\n"                                                \
    "      --durability HOW what a node that was killed has of it when it is there again: none\n" \
    "                       (default), async (what others saw, or was flushed), sync (all)\n"

#define SPACE_HELP_LS "  ls [PREFIX]          all spaces, by name; PREFIX: what names begin with\n"

#define SPACE_HELP_STAT                                                                         \
    "  stat NAME            its sizes, who may what, which nodes take part, and what was done " \
    "here\n"

#define SPACE_HELP_ALLOC                                                                 \
    "  alloc NAME SIZE      memory of it, all zero; prints its ADDRESS\n"                \
    "      --on RANK|NAME   at the home of this node (default: the one that is asked)\n" \
    "      --align SIZE     at a multiple of this power of two, up to 1G\n"

#define SPACE_HELP_FREE "  free NAME ADDRESS    what alloc gave\n"

#define SPACE_HELP_READ \
    "  read NAME ADDRESS SIZE\n                       its bytes, to standard output\n"

#define SPACE_HELP_WRITE "  write NAME ADDRESS   standard input into it\n"

#define SPACE_HELP_RM "  rm NAME...           for all who have them open, too\n"

#define SPACE_HELP_ALL                                                                            \
    "A SIZE has K, M, G, T or P behind it, or nothing; an ADDRESS is as alloc prints it. What a " \
    "node has\nof a space that is not durable goes with it.\n"                                    \
    "Without --timeout: 30 seconds for each step.\n"

#endif
