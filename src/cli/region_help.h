/* SPDX-License-Identifier: Apache-2.0 */
/* What `nigh region --help` says, and of one action `nigh region ACTION --help`. */
#ifndef CLI_REGION_HELP_H
#define CLI_REGION_HELP_H

#define REGION_HELP_CREATE                                                                         \
    "  create NAME SIZE     a region of zeros, e.g. of 64M; it is yours\n"                         \
    "      --chunk SIZE     of what lies on one node, for good; a multiple of 4096; 128 at most "  \
    "(default:\n                       the region's size, or with --spread a node's share, up to " \
    "16 MiB,\n                       or what it takes for 128 to be enough)\n"                     \
    "      --on RANK|NAME   have this node hold it (default: the one that is asked)\n"             \
    "      --spread         all nodes, in turn\n"                                                  \
    "      --near NAME      each chunk where the bytes of this region lie\n"                       \
    "      --group RIGHTS   what your group may: of r (read), w (write), m (master: change it)\n"  \
    "      --others RIGHTS  what all others may\n"                                                 \
    "      --mappable       processes of a chunk's node may map it (nigh_region_map(3))\n"

#define REGION_HELP_LS \
    "  ls [PREFIX]          all that you have rights to, by name; PREFIX: what names begin with\n"

#define REGION_HELP_STAT \
    "  stat NAME            its size, who may what, and which node has which chunk\n"

#define REGION_HELP_READ                                     \
    "  read NAME            its bytes, to standard output\n" \
    "      --offset SIZE    from here on\n"                  \
    "      --size SIZE      so many (default: to the end)\n"

#define REGION_HELP_WRITE                             \
    "  write NAME           standard input into it\n" \
    "      --offset SIZE    from here on\n"

#define REGION_HELP_MOVE \
    "  move NAME CHUNK NODE a chunk, by its number, to another node: a rank or a name\n"

#define REGION_HELP_CHMOD \
    "  chmod NAME CHANGE    of rights: u:USER, g or o, then + or -, then rights: u:1000+rw, o-r\n"

#define REGION_HELP_RESIZE                                                         \
    "  resize NAME SIZE     longer, by zeros, to 128 chunks at most, or shorter\n" \
    "      --on, --spread   who is to hold what is new: as for create\n"

#define REGION_HELP_RM "  rm NAME...           for all who have them open, too\n"

#define REGION_HELP_ALL                                                                         \
    "A SIZE has K, M, G, T or P behind it, or nothing. A region goes with the nodes that hold " \
    "it.\n"                                                                                     \
    "Without --timeout: 30 seconds for each change, or MiB; 3 for a node that has just begun.\n"

#endif
