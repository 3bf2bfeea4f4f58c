/* Steps the wall clock of one process: LD_PRELOAD=clock-shim.so CHAOS_CLOCK=<file with the offset in microseconds, int64>. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *offset;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void) {
  real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  const char *file = getenv("CHAOS_CLOCK");
  int fd = file ? open(file, O_RDONLY) : -1;
  if (fd < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) offset = page;
}

static int64_t wall_us(void) {
  struct timespec now;
  real_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + (offset ? *offset : 0);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!real_gettime) start();
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return real_gettime(clock, now);
  int64_t us = wall_us();
  now->tv_sec = us / 1000000;
  now->tv_nsec = us % 1000000 * 1000;
  return 0;
}

int gettimeofday(struct timeval *now, void *zone) {
  (void)zone;
  if (!real_gettime) start();
  int64_t us = wall_us();
  now->tv_sec = us / 1000000;
  now->tv_usec = us % 1000000;
  return 0;
}

time_t time(time_t *result) {
  if (!real_gettime) start();
  time_t now = wall_us() / 1000000;
  if (result) *result = now;
  return now;
}
