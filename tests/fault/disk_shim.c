// SPDX-License-Identifier: Apache-2.0
// Preloaded into `serve` by the fault tests: makes the disk fill up, or the process die (SIGKILL) at one step of a block
// write. The program itself knows nothing of it.
//   DISK_SHIM_DIE=STEP:N   dies at STEP of the N-th block file written
//   DISK_SHIM_FULL=PATH    while the file PATH exists, the disk is full: a block is cut short, its rest and all writes to
//                          the index fail with ENOSPC
// Steps: torn (half of the temporary file), written (before its fsync), synced (after it), renamed, published (after the
// fsync of the directory), indexing (half of a write to the index), indexed (before the next block's first byte).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define TEMPORARY "*.isb.tmp"
#define FOLDER "*/[0-9a-f][0-9a-f]"
#define INDEX "*/index.sqlite*"
#define PLANES_BYTES (1 << 20)  // a longer write is the block's planes

static atomic_int blocks_begun, blocks_renamed;

static int fd_is(int fd, const char* pattern) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  return fnmatch(pattern, path, 0) == 0;
}

// Whether the N of DISK_SHIM_DIE=step:N is `n`.
static int dies_at(const char* step, int n) {
  const char* wanted = getenv("DISK_SHIM_DIE");
  const size_t length = strlen(step);
  return wanted && strncmp(wanted, step, length) == 0 && wanted[length] == ':' && atoi(wanted + length + 1) == n;
}

static void die_at(const char* step, int n) {
  if (dies_at(step, n)) kill(getpid(), SIGKILL);
}

static int disk_is_full(void) {
  const char* path = getenv("DISK_SHIM_FULL");
  return path && access(path, F_OK) == 0;
}

typedef ssize_t (*write_fn)(int, const void*, size_t);
typedef ssize_t (*pwrite_fn)(int, const void*, size_t, off_t);

ssize_t write(int fd, const void* data, size_t size) {
  const write_fn real = (write_fn)dlsym(RTLD_NEXT, "write");
  if (fd <= 2 || !fd_is(fd, TEMPORARY)) return real(fd, data, size);
  if (lseek(fd, 0, SEEK_CUR) == 0) die_at("indexed", atomic_fetch_add(&blocks_begun, 1));
  if (disk_is_full()) {
    if (size > PLANES_BYTES) return real(fd, data, size / 2);
    errno = ENOSPC;
    return -1;
  }
  if (size > PLANES_BYTES && dies_at("torn", blocks_begun)) {
    real(fd, data, size / 2);
    die_at("torn", blocks_begun);
  }
  return real(fd, data, size);
}

static ssize_t index_write(const char* name, int fd, const void* data, size_t size, off_t at) {
  const pwrite_fn real = (pwrite_fn)dlsym(RTLD_NEXT, name);
  if (fd_is(fd, INDEX)) {
    if (disk_is_full()) {
      errno = ENOSPC;
      return -1;
    }
    if (dies_at("indexing", blocks_renamed)) {
      real(fd, data, size / 2, at);
      die_at("indexing", blocks_renamed);
    }
  }
  return real(fd, data, size, at);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  return index_write("pwrite", fd, data, size, at);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off_t at) {
  return index_write("pwrite64", fd, data, size, at);
}

int fsync(int fd) {
  const int is_temporary = fd_is(fd, TEMPORARY);
  if (is_temporary) die_at("written", blocks_begun);
  const int result = ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
  if (is_temporary) die_at("synced", blocks_begun);
  if (fd_is(fd, FOLDER)) die_at("published", blocks_renamed);
  return result;
}

int rename(const char* from, const char* to) {
  const int result = ((int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename"))(from, to);
  if (result == 0 && fnmatch(TEMPORARY, from, 0) == 0) {
    atomic_fetch_add(&blocks_renamed, 1);
    die_at("renamed", blocks_renamed);
  }
  return result;
}
