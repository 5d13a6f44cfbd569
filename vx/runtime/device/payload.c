/* `NAME abi=1 topo=501 toponame=Device[1] kind=kernel`: strict, since a guess here runs something somewhere. */
#include "payload.h"

#include <string.h>

enum { WORDS = 16, ABI = 1 };
enum { KEY_ABI, KEY_TOPO, KEY_TOPONAME, KEY_KIND, KEYS };
static const char *const KEY[KEYS] = {"abi", "topo", "toponame", "kind"};

typedef struct {
    const char *at;
    size_t length;
} Word;

static bool is(Word w, const char *text) { return w.length == strlen(text) && memcmp(w.at, text, w.length) == 0; }

static bool separates(char c) { return c == ' ' || c == '\n' || c == '\0'; }

static int split(const char *text, size_t bytes, Word words[WORDS]) {
    int count = 0;
    for (size_t i = 0; i < bytes;) {
        size_t start = i;
        while (i < bytes && !separates(text[i])) i++;
        if (i > start) {
            if (count == WORDS) return -1;
            words[count++] = (Word){text + start, i - start};
        }
        i++;
    }
    return count;
}

static bool number(Word w, uint32_t *value) {
    uint64_t sum = 0;
    if (w.length == 0 || w.length > 10) return false;
    for (size_t i = 0; i < w.length; i++) {
        if (w.at[i] < '0' || w.at[i] > '9') return false;
        sum = sum * 10 + (uint64_t)(w.at[i] - '0');
    }
    *value = (uint32_t)sum;
    return sum <= UINT32_MAX;
}

static bool keep(Word w, char *text, size_t room) {
    if (w.length == 0 || w.length >= room) return false;
    memcpy(text, w.at, w.length);
    text[w.length] = 0;
    return true;
}

static const char *read_value(int key, Word value, Payload *payload) {
    uint32_t abi;
    switch (key) {
        case KEY_ABI: return number(value, &abi) && abi == ABI ? NULL : "its abi is not 1";
        case KEY_TOPO: return number(value, &payload->topology) ? NULL : "its topo is no number";
        case KEY_TOPONAME: return keep(value, payload->place, sizeof payload->place) ? NULL : "its toponame is empty or too long";
        default: return is(value, "kernel") ? NULL : "its kind is not `kernel`, the only one that this plugin runs";
    }
}

static const char *read_entry(Word w, bool seen[KEYS], Payload *payload) {
    const char *equals = memchr(w.at, '=', w.length);
    if (!equals) return "an entry has no `=`";
    Word key = {w.at, (size_t)(equals - w.at)}, value = {equals + 1, w.length - key.length - 1};
    for (int k = 0; k < KEYS; k++) {
        if (!is(key, KEY[k])) continue;
        if (seen[k]) return "an entry stands twice";
        seen[k] = true;
        return read_value(k, value, payload);
    }
    return "an entry is not one of abi, topo, toponame, kind (roles, scale and outkind belong to library calls, which "
           "a program makes through its regions)";
}

const char *vxd_parse_payload(const char *text, size_t bytes, Payload *payload) {
    Word words[WORDS];
    bool seen[KEYS] = {false};
    *payload = (Payload){.topology = 0};
    int count = text ? split(text, bytes, words) : 0;
    if (count < 0) return "it has too many entries";
    if (count == 0 || memchr(words[0].at, '=', words[0].length) || !keep(words[0], payload->kernel, sizeof payload->kernel))
        return "it does not begin with the name of a kernel";
    for (int i = 1; i < count; i++) {
        const char *wrong = read_entry(words[i], seen, payload);
        if (wrong) return wrong;
    }
    if (!seen[KEY_ABI]) return "it states no abi";
    return seen[KEY_TOPO] ? NULL : "it states no topo";
}
