/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See config.h.
 *
 * inih reads the file; it cuts lines of INI_LINE_BYTES without a word, takes one that begins with a
 * blank for more of the key above and does not tell of a section without keys, so the lines are
 * looked over first.
 */
#include "daemon/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/fd.h"

#define CONFIG_LINE_BYTES 190 /* inih's INI_MAX_LINE is 200, with its end */
#define CONFIG_POOL       "pool "

struct config_reader {
    struct daemon_options *options;
    bool seen[DAEMON_OPTIONS_COUNT];        /* keys of [node] */
    uint32_t pool_keys[LIMIT_CONFIG_POOLS]; /* a bit for each key of a pool that was given */
    bool failed;
    char why[OPTIONS_WHY_BYTES];
};

static const char *const config_pool_keys[] = {"owner", "group", "mode", "strict", "quota"};

/* ---- sections ------------------------------------------------------------- */

static struct daemon_pool *config_find_pool(struct daemon_options *options, const char *name)
{
    for (uint32_t i = 0; i < options->pool_count; i++) {
        if (strcmp(options->pools[i].name, name) == 0)
            return &options->pools[i];
    }
    return NULL;
}

/* A section's header: [node], or [pool NAME], which declares the pool. */
static bool config_open_section(struct daemon_options *options, const char *section, uint32_t line,
                                char *why, size_t why_bytes)
{
    const char *name = section + strlen(CONFIG_POOL);
    struct daemon_pool *pool;
    char shown[64];

    if (strcmp(section, "node") == 0)
        return true;
    if (strncmp(section, CONFIG_POOL, strlen(CONFIG_POOL)) != 0) {
        bytes_printable(section, strnlen(section, 40), shown, sizeof(shown));
        snprintf(why, why_bytes, "there is no section [%s]; there are [node] and [pool NAME]",
                 shown);
        return false;
    }
    if (!pool_name_is_valid(name)) {
        snprintf(why, why_bytes, "a pool's name must be 1 to %u letters, digits, '-', '_' and '.'",
                 LIMIT_POOL_NAME_BYTES);
        return false;
    }
    pool = config_find_pool(options, name);
    if (pool != NULL) {
        snprintf(why, why_bytes, "pool %s is declared in line %u already", name, pool->line);
        return false;
    }
    if (options->pool_count == LIMIT_CONFIG_POOLS) {
        snprintf(why, why_bytes, "more than %u pools", LIMIT_CONFIG_POOLS);
        return false;
    }
    pool = &options->pools[options->pool_count++];
    memset(pool, 0, sizeof(*pool));
    (void)bytes_copy_text(pool->name, sizeof(pool->name), name);
    pool->mode = 0600;
    pool->line = line;
    return true;
}

/* ---- the look over the lines ---------------------------------------------- */

/* Whether there is something behind blanks, and no comment. */
static bool config_is_indented(const char *line, size_t length)
{
    size_t at = 0;

    while (at < length && isspace((unsigned char)line[at]))
        at++;
    return at > 0 && at < length && line[at] != '#' && line[at] != ';';
}

static bool config_check_line(struct daemon_options *options, const char *line, size_t length,
                              uint32_t number, char *why, size_t why_bytes)
{
    char section[CONFIG_LINE_BYTES];
    const char *end;

    if (length >= CONFIG_LINE_BYTES) {
        snprintf(why, why_bytes,
                 "the line is longer than %d bytes; a list of nodes may stand in a file: join = "
                 "@FILE",
                 CONFIG_LINE_BYTES - 1);
        return false;
    }
    if (memchr(line, 0, length) != NULL) {
        snprintf(why, why_bytes, "the line has a zero byte; this is no text file");
        return false;
    }
    if (config_is_indented(line, length)) {
        snprintf(why, why_bytes,
                 "the line begins with a blank: keys and sections begin their "
                 "lines");
        return false;
    }
    if (length == 0 || line[0] != '[')
        return true;
    end = memchr(line, ']', length);
    if (end == NULL) {
        snprintf(why, why_bytes, "the section's closing bracket is missing");
        return false;
    }
    memcpy(section, line + 1, (size_t)(end - line) - 1);
    section[end - line - 1] = '\0';
    return config_open_section(options, section, number, why, why_bytes);
}

static bool config_check_lines(struct daemon_options *options, const char *text, size_t size,
                               uint32_t *number, char *why, size_t why_bytes)
{
    size_t at = 0;

    *number = 0;
    while (at < size) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end == NULL ? size - at : (size_t)(end - (text + at));

        ++*number;
        if (!config_check_line(options, text + at, length, *number, why, why_bytes))
            return false;
        at += length + 1;
    }
    return true;
}

/* ---- keys ----------------------------------------------------------------- */

static bool config_set_node_key(struct config_reader *reader, const char *key, const char *value)
{
    int option = daemon_option_find(key);
    char why[OPTIONS_WHY_BYTES];

    if (option < 0) {
        char shown[64];

        bytes_printable(key, strnlen(key, 40), shown, sizeof(shown));
        snprintf(reader->why, sizeof(reader->why),
                 "there is no key \"%s\" in [node]; nighd --help lists them", shown);
        return false;
    }
    if (reader->seen[option]) {
        snprintf(reader->why, sizeof(reader->why), "%s is given twice", key);
        return false;
    }
    reader->seen[option] = true;
    if (daemon_option_set(reader->options, option, value, why, sizeof(why)) == NIGH_OK)
        return true;
    snprintf(reader->why, sizeof(reader->why), "%s: %.400s", key, why);
    return false;
}

static bool config_set_pool_key(struct config_reader *reader, struct daemon_pool *pool,
                                const char *key, const char *value)
{
    uint32_t *given = &reader->pool_keys[pool - reader->options->pools];
    char why[OPTIONS_WHY_BYTES];

    for (uint32_t i = 0; i < ARRAY_LENGTH(config_pool_keys); i++) {
        if (strcmp(key, config_pool_keys[i]) != 0)
            continue;
        if ((*given & 1u << i) != 0) {
            snprintf(reader->why, sizeof(reader->why), "%s is given twice", key);
            return false;
        }
        *given |= 1u << i;
    }
    if (daemon_pool_set(pool, key, value, why, sizeof(why)) == NIGH_OK)
        return true;
    snprintf(reader->why, sizeof(reader->why), "pool %s: %.400s", pool->name, why);
    return false;
}

/* inih's handler: 0 tells it that this line is wrong; it remembers the first such line. */
static int config_on_key(void *context, const char *section, const char *key, const char *value)
{
    struct config_reader *reader = context;
    struct daemon_pool *pool = NULL;
    bool good;

    if (reader->failed)
        return 0;
    if (strncmp(section, CONFIG_POOL, strlen(CONFIG_POOL)) == 0)
        pool = config_find_pool(reader->options, section + strlen(CONFIG_POOL));
    if (pool != NULL) {
        good = config_set_pool_key(reader, pool, key, value);
    } else if (strcmp(section, "node") == 0) {
        good = config_set_node_key(reader, key, value);
    } else {
        snprintf(reader->why, sizeof(reader->why),
                 section[0] == '\0' ? "a key before the first section; write [node] above it"
                                    : "the section's header must begin its line");
        good = false;
    }
    reader->failed = !good;
    return good ? 1 : 0;
}

/* ---- files ---------------------------------------------------------------- */

nigh_status config_parse(const char *text, size_t size_bytes, const char *name,
                         struct daemon_options *options, char *why, size_t why_bytes)
{
    struct config_reader reader = {.options = options};
    char sentence[OPTIONS_WHY_BYTES];
    uint32_t line;
    int bad_line;
    char *copy;

    if (size_bytes > LIMIT_CONFIG_BYTES) {
        snprintf(why, why_bytes, "%s: the file is larger than %u bytes", name, LIMIT_CONFIG_BYTES);
        return NIGH_INVALID;
    }
    if (!config_check_lines(options, text, size_bytes, &line, sentence, sizeof(sentence))) {
        snprintf(why, why_bytes, "%s:%u: %.400s", name, line, sentence);
        return NIGH_INVALID;
    }
    copy = malloc(size_bytes + 1);
    if (copy == NULL) {
        snprintf(why, why_bytes, "%s: no memory to read it", name);
        return NIGH_NO_RESOURCES;
    }
    memcpy(copy, text, size_bytes);
    copy[size_bytes] = '\0';
    bad_line = ini_parse_string(copy, config_on_key, &reader);
    free(copy);
    if (bad_line != 0) {
        snprintf(why, why_bytes, "%s:%d: %.400s", name, bad_line,
                 reader.failed ? reader.why : "neither a [section], nor \"key = value\"");
        return NIGH_INVALID;
    }
    return NIGH_OK;
}

nigh_status config_read(const char *path, struct daemon_options *options, char *why,
                        size_t why_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    nigh_status status;
    size_t size = 0;
    char *text;

    if (fd < 0) {
        snprintf(why, why_bytes, "cannot read the configuration file %s: %s", path,
                 strerror(errno));
        return errno == EACCES ? NIGH_DENIED : NIGH_INVALID;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        fd_close(&fd);
        snprintf(why, why_bytes, "%s is not a file", path);
        return NIGH_INVALID;
    }
    text = malloc(LIMIT_CONFIG_BYTES + 1);
    if (text == NULL) {
        fd_close(&fd);
        snprintf(why, why_bytes, "no memory to read %s", path);
        return NIGH_NO_RESOURCES;
    }
    status = fd_read_full(fd, text, LIMIT_CONFIG_BYTES + 1, &size);
    fd_close(&fd);
    if (status == NIGH_OK)
        status = config_parse(text, size, path, options, why, why_bytes);
    else
        snprintf(why, why_bytes, "cannot read %s", path);
    free(text);
    return status;
}
