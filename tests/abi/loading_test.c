/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the library does nothing: no descriptor, no thread, no signal handler. Programs that
   never open a device pay nothing, and those that load it late lose nothing. */
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

static int entries(const char* path) {
  int count = 0;
  DIR* directory = opendir(path);
  if (directory == NULL) return -1;
  while (readdir(directory) != NULL) ++count;
  closedir(directory);
  return count;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const int descriptors = entries("/proc/self/fd");
  const int threads = entries("/proc/self/task");
  struct sigaction before, after;
  sigaction(SIGSEGV, NULL, &before);
  if (dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) == NULL) {
    printf("%s\n", dlerror());
    return 1;
  }
  sigaction(SIGSEGV, NULL, &after);
  if (entries("/proc/self/fd") != descriptors) return printf("descriptors were opened\n"), 1;
  if (entries("/proc/self/task") != threads) return printf("a thread was started\n"), 1;
  if (before.sa_handler != after.sa_handler) return printf("SIGSEGV was taken\n"), 1;
  return 0;
}
