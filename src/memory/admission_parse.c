/* SPDX-License-Identifier: Apache-2.0 */
/* See admission_parse.h. A line is looked at once, left to right; nothing here allocates. */
#include "memory/admission_parse.h"

#include <string.h>

#include "base/check.h"

/* From here on a limit is the kernel's way to say that there is none. */
#define ADMISSION_LIMIT_FROM (UINT64_C(1) << 62)

/* A piece of somebody's text. */
struct piece {
    const char *at;
    const char *end;
};

static bool piece_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t piece_bytes(const struct piece *piece)
{
    return (size_t)(piece->end - piece->at);
}

static bool piece_equals(const struct piece *piece, const char *text)
{
    size_t n = strlen(text);

    return piece_bytes(piece) == n && memcmp(piece->at, text, n) == 0;
}

/* Cuts the text in front of `stop` off; without a `stop` in it, all of the text. False: nothing was
 * left. */
static bool piece_cut(struct piece *rest, char stop, struct piece *head)
{
    const char *found;

    if (rest->at == rest->end)
        return false;
    found = memchr(rest->at, stop, piece_bytes(rest));
    head->at = rest->at;
    head->end = found != NULL ? found : rest->end;
    rest->at = found != NULL ? found + 1 : rest->end;
    return true;
}

/* The next word between blanks. */
static bool piece_word(struct piece *rest, struct piece *word)
{
    while (rest->at < rest->end && piece_is_blank(*rest->at))
        rest->at++;
    word->at = rest->at;
    while (rest->at < rest->end && !piece_is_blank(*rest->at))
        rest->at++;
    word->end = rest->at;
    return word->at < word->end;
}

/* All of the piece as a decimal number of 64 bits. */
static bool piece_number(const struct piece *piece, uint64_t *value)
{
    uint64_t number = 0;

    if (piece->at == piece->end)
        return false;
    for (const char *c = piece->at; c < piece->end; c++) {
        if (*c < '0' || *c > '9' || !checked_mul_u64(number, 10, &number) ||
            !checked_add_u64(number, (uint64_t)(*c - '0'), &number))
            return false;
    }
    *value = number;
    return true;
}

bool admission_parse_number(const char *text, size_t text_bytes, uint64_t *value)
{
    struct piece rest = {text, text + text_bytes};
    struct piece word, more;
    uint64_t number;

    if (!piece_word(&rest, &word) || piece_word(&rest, &more))
        return false;
    if (piece_equals(&word, "max"))
        number = ADMISSION_NO_LIMIT;
    else if (!piece_number(&word, &number))
        return false;
    *value = number >= ADMISSION_LIMIT_FROM ? ADMISSION_NO_LIMIT : number;
    return true;
}

bool admission_parse_field(const char *text, size_t text_bytes, const char *key, uint64_t *value)
{
    struct piece rest = {text, text + text_bytes};
    struct piece line, word, number, unit;

    while (piece_cut(&rest, '\n', &line)) {
        uint64_t found;

        if (!piece_word(&line, &word) || !piece_equals(&word, key))
            continue;
        if (!piece_word(&line, &number) || !piece_number(&number, &found))
            return false;
        if (piece_word(&line, &unit) &&
            (!piece_equals(&unit, "kB") || !checked_mul_u64(found, 1024, &found)))
            return false;
        *value = found;
        return true;
    }
    return false;
}

bool admission_parse_rlimit(const char *text, size_t text_bytes, const char *key, uint64_t *value)
{
    struct piece rest = {text, text + text_bytes};
    struct piece line, soft;
    size_t key_bytes = strlen(key);

    while (piece_cut(&rest, '\n', &line)) {
        if (piece_bytes(&line) <= key_bytes || memcmp(line.at, key, key_bytes) != 0 ||
            !piece_is_blank(line.at[key_bytes]))
            continue;
        line.at += key_bytes;
        if (!piece_word(&line, &soft))
            return false;
        if (piece_equals(&soft, "unlimited")) {
            *value = ADMISSION_NO_LIMIT;
            return true;
        }
        return piece_number(&soft, value);
    }
    return false;
}

/* Whether a list with commas has the item. */
static bool piece_lists(struct piece list, const char *item)
{
    struct piece one;

    while (piece_cut(&list, ',', &one)) {
        if (piece_equals(&one, item))
            return true;
    }
    return false;
}

static bool piece_copy(const struct piece *piece, char *out, size_t out_bytes)
{
    if (piece_bytes(piece) >= out_bytes)
        return false;
    memcpy(out, piece->at, piece_bytes(piece));
    out[piece_bytes(piece)] = '\0';
    return true;
}

bool admission_parse_cgroup(const char *text, size_t text_bytes, uint32_t *version, char *path,
                            size_t path_bytes)
{
    struct piece rest = {text, text + text_bytes};
    struct piece line, number, controllers, best = {NULL, NULL};
    uint32_t found = 0;

    while (found != 1 && piece_cut(&rest, '\n', &line)) {
        if (!piece_cut(&line, ':', &number) || !piece_cut(&line, ':', &controllers) ||
            line.at == line.end || *line.at != '/')
            continue;
        if (piece_lists(controllers, "memory"))
            found = 1;
        else if (piece_equals(&number, "0") && controllers.at == controllers.end)
            found = 2;
        else
            continue;
        best = line; /* what is left of it: the path, which may have colons */
    }
    if (found == 0 || !piece_copy(&best, path, path_bytes))
        return false;
    *version = found;
    return true;
}

bool admission_copy_escaped(const char *text, size_t text_bytes, char *out, size_t out_bytes)
{
    const char *end = text + text_bytes;
    size_t n = 0;

    for (const char *c = text; c < end; c++) {
        char byte = *c;

        if (byte == '\\' && end - c > 3 && c[1] >= '0' && c[1] <= '3' && c[2] >= '0' &&
            c[2] <= '7' && c[3] >= '0' && c[3] <= '7') {
            byte = (char)((c[1] - '0') * 64 + (c[2] - '0') * 8 + (c[3] - '0'));
            c += 3;
        }
        if (byte == '\0' || n + 1 >= out_bytes)
            return false;
        out[n++] = byte;
    }
    out[n] = '\0';
    return n > 0;
}

static bool piece_copy_escaped(const struct piece *piece, char *out, size_t out_bytes)
{
    return admission_copy_escaped(piece->at, piece_bytes(piece), out, out_bytes);
}

/* The part of a group's path below the root of a mount; "" where it is not below. */
static const char *admission_below(const char *path, const char *root)
{
    size_t n = strlen(root);

    if (strstr(path, "/..") != NULL)
        return ""; /* above this process's namespace: out of sight */
    if (strcmp(root, "/") == 0)
        return strcmp(path, "/") == 0 ? "" : path;
    if (strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0'))
        return path + n;
    return "";
}

/* One line of mountinfo: id parent major:minor root mount options [tags] - type source options. */
static bool admission_mount_line(struct piece line, uint32_t version, struct piece *root,
                                 struct piece *mount)
{
    struct piece word;

    for (int skip = 0; skip < 3; skip++) {
        if (!piece_word(&line, &word))
            return false;
    }
    if (!piece_word(&line, root) || !piece_word(&line, mount))
        return false;
    while (piece_word(&line, &word) && !piece_equals(&word, "-"))
        continue;
    if (!piece_word(&line, &word))
        return false;
    if (version == 2)
        return piece_equals(&word, "cgroup2");
    return piece_equals(&word, "cgroup") && piece_word(&line, &word) && piece_word(&line, &word) &&
           piece_lists(word, "memory");
}

bool admission_parse_mount(const char *text, size_t text_bytes, uint32_t version, const char *path,
                           char *mount, char *folder, size_t folder_bytes)
{
    struct piece rest = {text, text + text_bytes};
    struct piece line, root_piece, mount_piece;
    char root[ADMISSION_PATH_BYTES], point[ADMISSION_PATH_BYTES];

    while (piece_cut(&rest, '\n', &line)) {
        const char *below;
        size_t point_bytes;

        if (!admission_mount_line(line, version, &root_piece, &mount_piece) ||
            !piece_copy_escaped(&root_piece, root, sizeof(root)) ||
            !piece_copy_escaped(&mount_piece, point, sizeof(point)))
            continue;
        below = admission_below(path, root);
        point_bytes = strlen(point);
        if (point_bytes + strlen(below) >= folder_bytes)
            return false;
        memcpy(mount, point, point_bytes + 1);
        memcpy(folder, point, point_bytes);
        memcpy(folder + point_bytes, below, strlen(below) + 1);
        return true;
    }
    return false;
}

bool admission_parse_huge_name(const char *name, uint64_t *page_bytes)
{
    static const char prefix[] = "hugepages-";
    size_t n = strlen(name);
    struct piece digits;
    uint64_t kib;

    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || n < sizeof(prefix) + 2 ||
        strcmp(name + n - 2, "kB") != 0)
        return false;
    digits = (struct piece){name + sizeof(prefix) - 1, name + n - 2};
    return piece_number(&digits, &kib) && checked_mul_u64(kib, 1024, page_bytes);
}
