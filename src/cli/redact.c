/* SPDX-License-Identifier: Apache-2.0 */
/* See redact.h. */
#include "cli/redact.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blake.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"

enum {
    TOKEN_BYTES = 512,
    AUTHORITY_BYTES = 4096, /* where a password is looked for: a text may be all one word */
    PEM_HEAD_BYTES = 64,    /* "-----BEGIN ENCRYPTED PRIVATE KEY-----" and the like */
    DIGITS_MOST = 20,       /* of a number */
    LETTERS_OF_UNIT = 3,
    GROUPS_HEX = 32,   /* so many hexadecimal digits in groups are taken for a secret */
    GROUPS_LOOK = 512, /* numbers in so many bytes are a table: each is looked at but a few times */
    TEXT_LEAST = 4     /* of constants: bytes on end that can be printed */
};

/* Fields whose values are names. */
static const char *const name_fields[] = {"name",
                                          "space",
                                          "pool",
                                          "path",
                                          "address",
                                          "file",
                                          "at",
                                          "dir",
                                          "directory",
                                          "host",
                                          "region",
                                          "user",
                                          "socket",
                                          "answer",
                                          "member",
                                          "key",
                                          "join",
                                          "listen",
                                          "http",
                                          "spill",
                                          "log-dir",
                                          "cluster-key",
                                          "directory-password",
                                          "config"};

/* What stands behind a number, without a blank. */
static const char *const units[] = {"b", "kib", "mib", "gib", "tib", "k", "m", "g",
                                    "t", "s",   "ms",  "us",  "ns",  "h", "v", "x"};

bool redact_init(struct redact *redact, bool keeps_names)
{
    memset(redact, 0, sizeof *redact);
    redact->keeps_names = keeps_names;
    return random_system_fill(redact->salt, sizeof redact->salt) == NIGH_OK;
}

/* ---- sets of words -------------------------------------------------------- */

/* FNV-1a, of small letters; never 0. */
static uint64_t hash_of(const char *word, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (uint64_t)tolower((unsigned char)word[i])) * UINT64_C(0x100000001b3);
    }
    return hash == 0 ? 1 : hash;
}

/* The place where it is, or would be. */
static uint64_t *find(uint64_t *set, size_t places, uint64_t hash)
{
    size_t at = (size_t)hash & (places - 1);

    while (set[at] != 0 && set[at] != hash) {
        at = (at + 1) & (places - 1);
    }
    return &set[at];
}

/* False: it is full to three quarters, and takes no more. */
static bool add(uint64_t *set, size_t places, uint32_t *count, uint64_t hash)
{
    uint64_t *place = find(set, places, hash);

    if (*place != 0) {
        return true;
    }
    if (*count >= places / 4 * 3) {
        return false;
    }
    *place = hash;
    (*count)++;
    return true;
}

static bool is_word(struct redact *redact, const char *word, size_t length)
{
    return *find(redact->words, REDACT_WORDS, hash_of(word, length)) != 0;
}

static bool is_name(struct redact *redact, const char *word, size_t length)
{
    return length > 0 && *find(redact->names, REDACT_NAMES, hash_of(word, length)) != 0;
}

/* Letters and digits, and a letter among them, of a text that is one: programs have other
 * constants, too. */
static void learn_text(struct redact *redact, const char *text, size_t bytes)
{
    size_t length, letters;

    for (size_t at = 0; at < bytes; at += length) {
        length = letters = 0;
        while (at + length < bytes && isalnum((unsigned char)text[at + length])) {
            letters += isalpha((unsigned char)text[at + length++]) ? 1 : 0;
        }
        if (letters > 0) {
            /* With one word less, more is taken out than need be. */
            (void)add(redact->words, REDACT_WORDS, &redact->word_count, hash_of(text + at, length));
        }
        length = length == 0 ? 1 : length;
    }
}

void redact_learn(struct redact *redact, const char *text, size_t bytes)
{
    size_t length;

    for (size_t at = 0; at < bytes; at += length) {
        length = 0;
        while (at + length < bytes && (isprint((unsigned char)text[at + length]) ||
                                       isspace((unsigned char)text[at + length]))) {
            length++;
        }
        if (length >= TEXT_LEAST) {
            learn_text(redact, text + at, length);
        }
        length = length == 0 ? 1 : length;
    }
}

/* Where the constants of a program lie; false: it is no ELF file of this machine's, or damaged. */
static bool find_constants(const uint8_t *file, size_t bytes, size_t *at, size_t *size)
{
    Elf64_Ehdr head;
    Elf64_Shdr names, section;

    if (bytes < sizeof head) {
        return false;
    }
    memcpy(&head, file, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_shentsize != sizeof section || head.e_shstrndx >= head.e_shnum ||
        head.e_shoff > bytes || (bytes - head.e_shoff) / sizeof section < head.e_shnum) {
        return false;
    }
    memcpy(&names, file + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
    for (unsigned n = 0; n < head.e_shnum; n++) {
        static const char wanted[] = ".rodata";

        memcpy(&section, file + head.e_shoff + n * sizeof section, sizeof section);
        if (names.sh_offset < bytes && section.sh_name < bytes - names.sh_offset &&
            bytes - names.sh_offset - section.sh_name >= sizeof wanted &&
            memcmp(file + names.sh_offset + section.sh_name, wanted, sizeof wanted) == 0 &&
            section.sh_offset <= bytes && section.sh_size <= bytes - section.sh_offset) {
            *at = section.sh_offset;
            *size = section.sh_size;
            return true;
        }
    }
    return false;
}

bool redact_learn_program(struct redact *redact, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    size_t at = 0, size = 0;
    void *file = MAP_FAILED;
    bool found = false;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (file != MAP_FAILED) {
        found = find_constants(file, (size_t)st.st_size, &at, &size);
        redact_learn(redact, (const char *)file + at, size);
        munmap(file, (size_t)st.st_size);
    }
    return found;
}

void redact_name(struct redact *redact, const char *name)
{
    if (name[0] != '\0' &&
        !add(redact->names, REDACT_NAMES, &redact->name_count, hash_of(name, strlen(name)))) {
        redact->is_full = true;
    }
}

/* ---- what stays ----------------------------------------------------------- */

static bool is_among(const char *const *list, size_t count, const char *word, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(list[i]) == length && strncasecmp(list[i], word, length) == 0) {
            return true;
        }
    }
    return false;
}

/* "2026-11-30T00:36:44.000042Z" */
static bool is_time(const char *token, size_t length)
{
    return length > 19 && token[4] == '-' && token[10] == 'T' && token[length - 1] == 'Z' &&
           strspn(token, "0123456789TZ:.-") >= length;
}

/* A number, which may have a sign, a point or two, a unit: no address, and no key. */
static bool is_number(const char *token, size_t length)
{
    size_t digits = 0, points = 0, at = 0;

    while (at < length && !isalpha((unsigned char)token[at])) {
        digits += isdigit((unsigned char)token[at]) ? 1 : 0;
        points += token[at] == '.' ? 1 : 0;
        if (!isdigit((unsigned char)token[at]) && strchr(".%+-/", token[at]) == NULL) {
            return false;
        }
        at++;
    }
    return digits > 0 && digits <= DIGITS_MOST && points <= 2 &&
           (at == length || (length - at <= LETTERS_OF_UNIT &&
                             is_among(units, ARRAY_LENGTH(units), token + at, length - at)));
}

/* A path that is not the kernel's is whatever somebody called it, word by word. */
static bool is_path(const char *token, size_t length)
{
    static const char *const kernels[] = {"/sys/", "/proc/", "/dev/"};
    size_t slashes = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(kernels); i++) {
        if (length >= strlen(kernels[i]) && memcmp(token, kernels[i], strlen(kernels[i])) == 0) {
            return false;
        }
    }
    for (size_t at = 0; at < length; at++) {
        slashes += token[at] == '/' ? 1 : 0;
    }
    return slashes > 1 || (length > 1 && (token[0] == '/' || token[0] == '@'));
}

/* Words that nigh says, joined by whatever is neither letter nor digit. */
static bool is_known(struct redact *redact, const char *token, size_t length)
{
    size_t run;

    if (redact->is_full || is_name(redact, token, length) || is_path(token, length)) {
        return false;
    }
    for (size_t at = 0; at < length; at += run) {
        run = 0;
        while (at + run < length && isalnum((unsigned char)token[at + run])) {
            run++;
        }
        if ((unsigned char)token[at] >= 0x80 ||
            (run > 0 && (!is_word(redact, token + at, run) || is_name(redact, token + at, run)))) {
            return false;
        }
        run = run == 0 ? 1 : run;
    }
    return true;
}

/* ---- what goes ------------------------------------------------------------ */

static void write_hashed(struct redact *redact, const char *token, size_t length, FILE *out)
{
    uint8_t salted[REDACT_SALT_BYTES + TOKEN_BYTES], digest[20];
    char text[9];

    length = length < TOKEN_BYTES ? length : TOKEN_BYTES;
    memcpy(salted, redact->salt, REDACT_SALT_BYTES);
    memcpy(salted + REDACT_SALT_BYTES, token, length);
    blake_id20(salted, REDACT_SALT_BYTES + length, digest);
    bytes_hex(digest, 4, text);
    fprintf(out, "~%s", text);
    redact->hashed++;
}

/* Whether so many hexadecimal digits stand there on end: a key's, or an object's id. */
static bool has_secret(const char *token, size_t length)
{
    size_t run = 0;

    for (size_t at = 0; at < length && run < REDACT_SECRET_HEX; at++) {
        run = isxdigit((unsigned char)token[at]) ? run + 1 : 0;
    }
    return run >= REDACT_SECRET_HEX;
}

/* How much from `text` on is a key in groups: hexadecimal digits with single blanks among them. Of
 * numbers alone, as in a table, it is none. 0: it is none. */
static size_t grouped_secret(const char *text, size_t bytes)
{
    size_t digits = 0, letters = 0, at = 0, end = 0, count = 0;

    do {
        size_t group = at;

        while (at < bytes && isxdigit((unsigned char)text[at])) {
            letters += isalpha((unsigned char)text[at]) ? 1 : 0;
            at++;
        }
        if (at == group || (at < bytes && isalnum((unsigned char)text[at]))) {
            break;
        }
        digits += at - group;
        end = at;
        count++;
    } while ((letters > 0 || at < GROUPS_LOOK) && at < bytes &&
             (text[at] == ' ' || text[at] == '\t') && ++at < bytes);
    return count > 1 && digits >= GROUPS_HEX && letters > 0 ? end : 0;
}

/* Where the hexadecimal digits begin that a word ends with; its length: it ends with others. */
static size_t last_digits(const char *word, size_t length)
{
    size_t begin = length;

    while (begin > 0 && isxdigit((unsigned char)word[begin - 1])) {
        begin--;
    }
    return begin > 0 && isalnum((unsigned char)word[begin - 1]) ? length : begin;
}

/* What a terminal takes for more than a text is not for who reads the report. */
static void write_text(const char *text, size_t length, FILE *out)
{
    for (size_t at = 0; at < length; at++) {
        bool is_control = iscntrl((unsigned char)text[at]) && strchr("\n\t", text[at]) == NULL;

        fputc(text[at] == '\0' || is_control ? '?' : text[at], out);
    }
}

static void write_secret(struct redact *redact, FILE *out)
{
    fputs("<removed>", out);
    redact->secrets++;
}

/* Of what stands behind "://", how much may hold a password, which has any characters but blanks:
 * all up to the last '@', or where none follows (the text may have been cut) up to a slash or the
 * quote that ends it. */
static size_t authority_of(const char *text, size_t bytes)
{
    size_t end = 0, at = 0;

    bytes = bytes < AUTHORITY_BYTES ? bytes : AUTHORITY_BYTES;
    while (end < bytes && text[end] != '\0' && !isspace((unsigned char)text[end])) {
        end++;
    }
    if (memchr(text, '@', end) != NULL) {
        return (size_t)((const char *)memrchr(text, '@', end) - text);
    }
    while (at < end && text[at] != '/' && (text[at] != '"' || (at > 0 && text[at - 1] == '\\'))) {
        at++;
    }
    return at;
}

/* What says of itself that it is a secret. */
struct told {
    size_t word;       /* so much is the word that says so */
    size_t begin, end; /* behind it, and signs between them */
};

/* "password = ..." and "password: ...": to the end of the line, as a password has any characters.
 */
static bool find_password(const char *text, size_t length, size_t bytes, struct told *told)
{
    static const char word[] = "password";

    for (size_t at = 0; at + sizeof word - 1 <= length; at++) {
        size_t next = at + sizeof word - 1;
        const char *end;

        if (strncasecmp(text + at, word, sizeof word - 1) != 0) {
            continue;
        }
        told->word = next;
        next += strspn(text + next, "\" \t");
        if (next < bytes && (text[next] == '=' || text[next] == ':')) {
            told->begin = next + 1 + strspn(text + next + 1, " \t");
            end = memchr(text + told->begin, '\n', bytes - told->begin);
            told->end = end == NULL ? bytes : (size_t)(end - text);
            return told->end > told->begin;
        }
    }
    return false;
}

/* A private key in PEM: to its last line, or where that is not there, to the end. */
static bool find_pem(const char *text, size_t length, size_t bytes, struct told *told)
{
    static const char begin[] = "-----BEGIN", private[] = "PRIVATE KEY-----", last[] = "-----END";
    const char *key = memmem(text, length, begin, sizeof begin - 1), *end;
    size_t at = key == NULL ? 0 : (size_t)(key - text), left = bytes - at;

    if (key == NULL || memmem(key, left < PEM_HEAD_BYTES ? left : PEM_HEAD_BYTES, private,
                              sizeof private - 1) == NULL) {
        return false;
    }
    end = memmem(key, left, last, sizeof last - 1);
    *told = (struct told){at, at, end == NULL ? bytes : (size_t)(end - text)};
    return true;
}

/* Between blanks, quotes and brackets; `of_name`: the field has names. */
static void write_token(struct redact *redact, const char *token, size_t length, bool of_name,
                        FILE *out)
{
    size_t end = length;

    if (has_secret(token, length)) {
        write_secret(redact, out);
        return;
    }
    if (redact->keeps_names) {
        write_text(token, length, out);
        return;
    }
    while (end > 0 && strchr(".:!?", token[end - 1]) != NULL) {
        end--; /* of the sentence */
    }
    if (of_name ? strspn(token, "0123456789") >= end && end <= 6
                : is_time(token, end) || is_number(token, end) || is_known(redact, token, end)) {
        write_text(token, end, out);
    } else {
        write_hashed(redact, token, end, out);
    }
    write_text(token + end, length - end, out);
}

/* ---- the text ------------------------------------------------------------- */

static bool is_between(char c)
{
    return isspace((unsigned char)c) || c == '\0' || strchr("\"'()[]{},;=<>|", c) != NULL;
}

/* Where the text is: of the field whose name stood last. */
struct place {
    bool is_field;  /* the last word is one of a field that has names */
    bool of_name;   /* what comes is its value */
    bool is_quoted; /* ... up to the next quote */
};

/* Whether the character behind `text` is one of a quoted text, for an odd number of backslashes. */
static bool is_escaped(const char *text, size_t at)
{
    size_t count = 0;

    while (count < at && text[at - 1 - count] == '\\') {
        count++;
    }
    return count % 2 == 1;
}

/* A character between words. */
static void pass(struct place *place, char c)
{
    if (c == '"' && place->of_name) {
        place->of_name = !place->is_quoted;
        place->is_quoted = !place->is_quoted;
    } else if (c == '=' && place->is_field) {
        place->of_name = true;
    } else if (!place->is_quoted) {
        place->of_name = false;
    }
    place->is_field = place->is_field && c == '"';
}

/* A word without an address in it, and the key in groups that it begins; how much that is. */
static size_t write_plain(struct redact *redact, const char *text, size_t length, size_t bytes,
                          struct place *place, FILE *out)
{
    size_t begin = last_digits(text, length);
    size_t grouped = grouped_secret(text + begin, bytes - begin);

    if (grouped > 0) {
        if (begin > 0) {
            write_token(redact, text, begin, place->of_name, out);
        }
        write_secret(redact, out);
        place->is_field = false;
        return begin + grouped;
    }
    write_token(redact, text, length, place->of_name, out);
    place->is_field =
        !place->of_name && is_among(name_fields, ARRAY_LENGTH(name_fields), text, length);
    return length;
}

/* A word from `text` on, and the address or the secret that it begins; how much that is. */
static size_t write_word(struct redact *redact, const char *text, size_t length, size_t bytes,
                         struct place *place, FILE *out)
{
    const char *slashes = memmem(text, length, "://", 3);
    size_t before = slashes == NULL ? length : (size_t)(slashes - text);
    struct told told;

    if (find_pem(text, before, bytes, &told) || find_password(text, before, bytes, &told)) {
        if (told.word > 0) {
            write_token(redact, text, told.word, place->of_name, out);
        }
        write_text(text + told.word, told.begin - told.word, out);
        write_secret(redact, out);
        *place = (struct place){0};
        return told.end;
    }
    if (slashes != NULL) {
        size_t scheme = (size_t)(slashes - text);
        size_t secret = authority_of(slashes + 3, bytes - scheme - 3);

        if (scheme > 0) {
            write_token(redact, text, scheme, place->of_name, out);
        }
        fputs("://", out);
        if (secret > 0) {
            write_secret(redact, out);
        }
        place->is_field = false;
        return scheme + 3 + secret;
    }
    return write_plain(redact, text, length, bytes, place, out);
}

void redact_write(struct redact *redact, const char *text, size_t bytes, FILE *out)
{
    struct place place = {0};
    size_t length, end = 0; /* of the word: looked for once, however many pieces it has */

    for (size_t at = 0; at < bytes; at += length) {
        const char *token = text + at;

        end = end < at ? at : end;
        while (end < bytes && !is_between(text[end])) {
            end++;
        }
        length = end - at;
        if (length == 0) {
            if (token[0] != '"' || !is_escaped(text, at)) {
                pass(&place, token[0]);
            }
            write_text(token, 1, out);
            length = 1;
        } else if (place.is_field && strncmp(token, ": \"", 3) == 0) {
            fputs(": \"", out); /* "name": "..." */
            place = (struct place){.of_name = true, .is_quoted = true};
            length = 3;
        } else {
            length = write_word(redact, token, length, bytes - at, &place, out);
        }
    }
}
