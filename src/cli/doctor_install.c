/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See doctor.h: whether programs, and Python, find what is installed: the library by the loader's
 * list (/etc/ld.so.cache), the package where Debian's Python looks. Starts no program.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/doctor.h"

#define LIBRARY "/libnigh.so." /* how its path goes on behind its folder */
#define LIBC    "/libc.so.6"
#define PACKAGE "dist-packages/nigh"

enum {
    PATH_BYTES = 1200,
    PATTERN_BYTES = 1400,
    FULL_BYTES = 4400,    /* of what lies on a test's machine */
    CACHE_BYTES = 8 << 20 /* at most */
};

/* ---- the loader ----------------------------------------------------------- */

/* The path of what this process has mapped that goes on so behind its folder; false: nothing, as in
 * a static one. */
static bool find_mapped(const struct doctor *doctor, const char *wanted, char path[PATH_BYTES])
{
    char name[FULL_BYTES], line[PATH_BYTES];
    bool found = false;
    FILE *file;

    (void)snprintf(name, sizeof name, "%s/proc/self/maps", doctor->root);
    file = fopen(name, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        const char *begin = strchr(line, '/');

        found = begin != NULL && strstr(begin, wanted) != NULL;
        if (found) {
            (void)snprintf(path, PATH_BYTES, "%.1100s", begin);
            path[strcspn(path, "\n")] = '\0';
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/* By whatever links. */
static bool is_same_file(const struct doctor *doctor, const char *one, const char *other)
{
    char path[FULL_BYTES];
    struct stat a, b;

    (void)snprintf(path, sizeof path, "%s%s", doctor->root, one);
    if (stat(path, &a) != 0) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s%s", doctor->root, other);
    return stat(path, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* What of that name these bytes have, texts that are each ended by a zero: `own` if it is among
 * them, else the first, as the list has those of other architectures and releases too. */
static bool find_text(const struct doctor *doctor, const char *own, const char *bytes, size_t count,
                      char path[PATH_BYTES])
{
    const char *at = bytes, *end = bytes + count;
    char text[PATH_BYTES];
    bool found = false;

    while ((at = memmem(at, (size_t)(end - at), LIBRARY, strlen(LIBRARY))) != NULL) {
        const char *begin = at;

        while (begin > bytes && begin[-1] != '\0') {
            begin--;
        }
        (void)snprintf(text, sizeof text, "%.1100s", begin);
        if (!found || is_same_file(doctor, text, own)) {
            (void)snprintf(path, PATH_BYTES, "%s", text);
        }
        found = true;
        at += strlen(LIBRARY);
    }
    return found;
}

/* What the loader's list has of that name; false: nothing, or no list. */
static bool find_listed(const struct doctor *doctor, const char *own, char path[PATH_BYTES])
{
    char name[FULL_BYTES];
    char *bytes = malloc(CACHE_BYTES);
    size_t count = 0;
    bool found;
    FILE *file;

    (void)snprintf(name, sizeof name, "%s/etc/ld.so.cache", doctor->root);
    file = fopen(name, "re");
    if (file != NULL) {
        count = bytes == NULL ? 0 : fread(bytes, 1, CACHE_BYTES - 1, file);
        fclose(file);
    }
    if (count > 0) {
        bytes[count] = '\0';
    }
    found = count > 0 && find_text(doctor, own, bytes, count, path);
    free(bytes);
    return found;
}

/* Whether a list like $PATH has the folder, by that name or another. */
static bool has_folder(const struct doctor *doctor, const char *list, const char *folder)
{
    char one[PATH_BYTES];

    while (list != NULL && *list != '\0') {
        size_t part = strcspn(list, ":");

        (void)snprintf(one, sizeof one, "%.*s", (int)min_size(part, sizeof one), list);
        if (part > 0 && (strcmp(one, folder) == 0 || is_same_file(doctor, one, folder))) {
            return true;
        }
        list += part + (list[part] == ':' ? 1 : 0);
    }
    return false;
}

/* Whether the loader looks there without being told: the folders that each has, and that of the C
 * library, as Debian's has /lib/x86_64-linux-gnu. */
static bool is_built_in(const struct doctor *doctor, const char *folder)
{
    static const char always[] = "/lib:/usr/lib:/lib64:/usr/lib64";
    char libc[PATH_BYTES];

    if (has_folder(doctor, always, folder)) {
        return true;
    }
    if (!find_mapped(doctor, LIBC, libc)) {
        return false;
    }
    *strstr(libc, LIBC) = '\0';
    return has_folder(doctor, libc, folder);
}

static void look_at_loader(const struct doctor *doctor, const char *own, int folder_bytes)
{
    char listed[PATH_BYTES], folder[PATH_BYTES];

    (void)snprintf(folder, sizeof folder, "%.*s", folder_bytes, own);
    if (has_folder(doctor, getenv("LD_LIBRARY_PATH"), folder)) {
        doctor_find(doctor, DOCTOR_GOOD, "loader", "", "$LD_LIBRARY_PATH has %s", folder);
    } else if (find_listed(doctor, own, listed)) {
        bool is_same = is_same_file(doctor, listed, own);

        doctor_find(doctor, is_same ? DOCTOR_GOOD : DOCTOR_NOTE, "loader",
                    is_same ? ""
                            : "ldconfig, where that one is gone; else remove one of the two, or "
                              "set LD_LIBRARY_PATH: a node takes programs of its release",
                    is_same ? "programs find %s" : "programs find %s, which is not what this has",
                    listed);
    } else if (is_built_in(doctor, folder)) {
        doctor_find(doctor, DOCTOR_GOOD, "loader", "", "programs find %s", own);
    } else {
        doctor_find(doctor, DOCTOR_NOTE, "loader",
                    "LD_LIBRARY_PATH with that folder for programs that do not know it, or a line "
                    "with it in /etc/ld.so.conf.d/nigh.conf, and ldconfig",
                    "the loader does not look for libnigh in %s", folder);
    }
}

/* ---- Python --------------------------------------------------------------- */

/* The first that there is. */
static bool find_any(const struct doctor *doctor, const char *pattern, char path[PATH_BYTES])
{
    char full[FULL_BYTES];
    glob_t found = {0};
    bool is_there;

    (void)snprintf(full, sizeof full, "%s%s", doctor->root, pattern);
    is_there = glob(full, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    if (is_there) {
        (void)snprintf(path, PATH_BYTES, "%s", found.gl_pathv[0] + strlen(doctor->root));
    }
    globfree(&found);
    return is_there;
}

/* Where $PYTHONPATH says. */
static bool find_in_python_path(const struct doctor *doctor, char path[PATH_BYTES])
{
    const char *list = getenv("PYTHONPATH");
    char full[FULL_BYTES];

    while (list != NULL && *list != '\0') {
        size_t part = strcspn(list, ":");

        (void)snprintf(path, PATH_BYTES, "%.*s/nigh", (int)part, list);
        (void)snprintf(full, sizeof full, "%s%s/__init__.py", doctor->root, path);
        if (part > 0 && access(full, F_OK) == 0) { /* not any folder of that name */
            return true;
        }
        list += part + (list[part] == ':' ? 1 : 0);
    }
    return false;
}

/* Beside the library: PREFIX/lib, or PREFIX/lib/ARCHITECTURE. */
static bool find_beside(const struct doctor *doctor, const char *own, int folder_bytes,
                        char path[PATH_BYTES])
{
    char pattern[PATTERN_BYTES];

    (void)snprintf(pattern, sizeof pattern, "%.*s/python3*/" PACKAGE, folder_bytes, own);
    if (find_any(doctor, pattern, path)) {
        return true;
    }
    (void)snprintf(pattern, sizeof pattern, "%.*s/../python3*/" PACKAGE, folder_bytes, own);
    return find_any(doctor, pattern, path);
}

static void look_at_python(const struct doctor *doctor, const char *own, int folder_bytes)
{
    char path[PATH_BYTES];

    if (!find_any(doctor, "/usr/bin/python3", path)) {
        return;
    }
    if (find_in_python_path(doctor, path) || find_any(doctor, "/usr/lib/python3/" PACKAGE, path) ||
        find_any(doctor, "/usr/local/lib/python3*/" PACKAGE, path)) {
        doctor_find(doctor, DOCTOR_GOOD, "python", "", "the package is %s, for /usr/bin/python3",
                    path);
    } else if (find_beside(doctor, own, folder_bytes, path)) {
        doctor_find(doctor, DOCTOR_NOTE, "python",
                    "PYTHONPATH with the folder that it lies in, for programs that import nigh",
                    "the package is %s, where /usr/bin/python3 does not look", path);
    } else {
        doctor_find(doctor, DOCTOR_GOOD, "python", "",
                    "there is no package nigh where /usr/bin/python3 looks (the package "
                    "python3-nigh has it)");
    }
}

void doctor_look_at_install(const struct doctor *doctor)
{
    char own[PATH_BYTES];
    const char *name = find_mapped(doctor, LIBRARY, own) ? strstr(own, LIBRARY) : NULL;

    if (name != NULL) {
        look_at_loader(doctor, own, (int)(name - own));
        look_at_python(doctor, own, (int)(name - own));
    }
}
