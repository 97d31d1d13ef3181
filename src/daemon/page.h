/* SPDX-License-Identifier: Apache-2.0 */
/* The page: the files it is made of, and what it shows as JSON (docs/page.md). */
#ifndef DAEMON_PAGE_H
#define DAEMON_PAGE_H

#include <stddef.h>
#include <stdio.h>

#include "daemon/picture.h"

/* As they lie in src/daemon/page; tools/embed makes them bytes of the program. */
struct page_file {
    const char *path; /* that is asked for */
    const char *type;
    const unsigned char *bytes;
    size_t count;
};

#define PAGE_FILES 3

extern const struct page_file page_files[PAGE_FILES];

/* The file of a path; NULL: there is none. */
const struct page_file *page_find(const char *path);

/* A picture as who asks may see it: one JSON object. */
void page_print(FILE *file, const struct picture *picture, const struct asker *asker);

/* That there is none. */
void page_print_failure(FILE *file, nigh_status status);

#endif
