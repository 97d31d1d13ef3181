/* SPDX-License-Identifier: Apache-2.0 */
/* What nigh doctor says of a machine that is a folder (machine.h): kept, and looked for. For one
 * file of a test. */
#ifndef SUPPORT_DOCTOR_H
#define SUPPORT_DOCTOR_H

#include "cli/doctor.h"
#include "support/machine.h"

#define KEPT 64

static struct {
    enum doctor_severity severity;
    char subject[32], finding[1024], remedy[512];
} kept[KEPT];
static size_t kept_count;

static void keep(void *context, enum doctor_severity severity, const char *subject,
                 const char *finding, const char *remedy)
{
    (void)context;
    assert_true(kept_count < KEPT);
    /* What is not good has its remedy, in all cases. */
    assert_true(severity == DOCTOR_GOOD || remedy[0] != '\0');
    kept[kept_count].severity = severity;
    (void)snprintf(kept[kept_count].subject, sizeof(kept[0].subject), "%s", subject);
    (void)snprintf(kept[kept_count].finding, sizeof(kept[0].finding), "%s", finding);
    (void)snprintf(kept[kept_count++].remedy, sizeof(kept[0].remedy), "%s", remedy);
}

static struct doctor begun(void)
{
    kept_count = 0;
    return (struct doctor){.root = root, .take = keep};
}

/* Whether it was said, of this subject, in these words; remedy NULL: whatever. */
static void expect(enum doctor_severity severity, const char *subject, const char *finding,
                   const char *remedy)
{
    for (size_t i = 0; i < kept_count; i++) {
        if (strcmp(kept[i].subject, subject) == 0 && kept[i].severity == severity &&
            strstr(kept[i].finding, finding) != NULL &&
            (remedy == NULL || strstr(kept[i].remedy, remedy) != NULL)) {
            return;
        }
    }
    for (size_t i = 0; i < kept_count; i++) {
        print_message("said: %d %s: %s -> %s\n", kept[i].severity, kept[i].subject, kept[i].finding,
                      kept[i].remedy);
    }
    fail_msg("not said: %d %s: %s -> %s", severity, subject, finding, remedy);
}

static inline void expect_none(const char *subject)
{
    for (size_t i = 0; i < kept_count; i++) {
        assert_string_not_equal(kept[i].subject, subject);
    }
}

/* Words, each ended by a zero, as a process has them. */
static inline void put_bytes(const char *path, const char *words, size_t bytes)
{
    char full[2 * PATH_BYTES];
    FILE *file;

    put(path, "");
    (void)snprintf(full, sizeof(full), "%s%s", root, path);
    file = fopen(full, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(words, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

#endif
