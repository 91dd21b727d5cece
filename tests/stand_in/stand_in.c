/* Stands in for an Oracle instance, so that tests need no licence: processes with a shared segment laid out like X$KSUSE that do real
 * work between functions called like Oracle's, and write down the truth about it.
 *
 *   stand_in DIRECTORY SECONDS SESSIONS KIND,KIND…     KIND: cached direct sleep spin semaphore named unnamed; with
 *   "statements" among them every wait belongs to a new statement
 *
 * It makes DIRECTORY/map.csv, as the script of `dbtime oracle-map` does, says "ready", and waits for a line on standard input; then every
 * session does all kinds in turn for so many seconds, and again for every further line. It says "done" when DIRECTORY/truth.csv is written:
 * for each pid, event and statement how often, how long (CLOCK_MONOTONIC), and how long of that on a CPU (CLOCK_THREAD_CPUTIME_ID).
 * Sessions then wait for work again, until standard input ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KSUSE_BYTES 12288 /* of one session, about as in 19c */
#define KSUSENUM 8
#define KSUSESQH 1640
#define KSUSEOPC 2040
#define KSUSETIM 2072
#define MAX_SESSIONS 64
#define READ_BYTES (1 << 20)
#define FILE_BYTES (32 << 20)

enum { SEQUENTIAL_READ = 146, DIRECT_READ = 198, ROW_LOCK = 237, FROM_CLIENT = 351, LATCH = 8, QUANTUM = 515,
       ONLY_IN_BINARY = 600, NOWHERE = 700, EVENTS = 650 };

/* The table of event names: the pointer to the name comes first, as every source that describes Oracle's says. */
struct event {
	const char *name;
	uint64_t parameters[3];
};
struct event ksledt_[EVENTS] = {
	[0] = { "null event" },
	[LATCH] = { "latch free" },
	[SEQUENTIAL_READ] = { "db file sequential read" },
	[DIRECT_READ] = { "direct path read" },
	[ROW_LOCK] = { "enq: TX - row lock contention" },
	[FROM_CLIENT] = { "SQL*Net message from client" },
	[QUANTUM] = { "resmgr:cpu quantum" },
	[ONLY_IN_BINARY] = { "event of the executable" },
};

static const struct { int number; const char *class; } in_map[] = {
	{ 0, "Other" }, { LATCH, "Other" }, { SEQUENTIAL_READ, "User I/O" }, { DIRECT_READ, "User I/O" },
	{ ROW_LOCK, "Application" }, { FROM_CLIENT, "Idle" }, { QUANTUM, "Scheduler" },
};

static char *session; /* of this process */
static volatile uint64_t sink;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void put(int offset, uint32_t value)
{
	__atomic_store_n((uint32_t *)(session + offset), value, __ATOMIC_RELEASE);
}

/* Two bytes of nop at the entry, so that there is an instruction at +2, as in Oracle 12c and later. */
#define HOOKED __attribute__((noinline, noclone, used, visibility("default"), patchable_function_entry(2, 0)))

HOOKED void kskthbwt(uint64_t x, uint64_t timestamp, uint64_t event)
{
	sink = x + timestamp;
	put(KSUSEOPC, event);
	put(KSUSETIM, 0);
}

HOOKED void kskthewt(uint64_t timestamp, uint64_t event)
{
	sink = timestamp + event;
	put(KSUSETIM, 1);
}

HOOKED void kews_update_wait_time(uint64_t x, uint64_t microseconds)
{
	sink = x + microseconds;
}

struct truth {
	uint32_t event, statement;
	uint64_t count, ns, cpu_ns, db_us, kept_ns;
};
static struct truth truths[64];

/* A session that takes longer than this from its clock to its event, or back, was kept from its CPU in between. */
#define LONG_NS 1000000

static void note(uint32_t event, uint32_t statement, uint64_t ns, uint64_t cpu_ns, uint64_t db_us, uint64_t beside_ns)
{
	for (struct truth *t = truths; t < truths + 64; t++) {
		if (t->count && (t->event != event || t->statement != statement))
			continue;
		t->event = event;
		t->statement = statement;
		t->count++;
		t->ns += ns;
		t->cpu_ns += cpu_ns;
		t->db_us += db_us;
		if (beside_ns > LONG_NS)
			t->kept_ns += beside_ns;
		return;
	}
	abort();
}

static int file = -1, direct_file = -1, semaphores = -1;
static char *buffer;
static unsigned reads;

static void spin(uint64_t ns)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + ns;

	while (clock_ns(CLOCK_MONOTONIC) < end)
		for (int i = 0; i < 1000; i++)
			sink += i;
}

static void sleep_for(long ns)
{
	struct timespec t = { 0, ns };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static void work(const char *kind)
{
	off_t at = (off_t)(reads++ % (FILE_BYTES / READ_BYTES)) * READ_BYTES;

	if (!strcmp(kind, "cached")) {
		if (pread(file, buffer, READ_BYTES, at) != READ_BYTES)
			abort();
	} else if (!strcmp(kind, "direct")) {
		if (pread(direct_file, buffer, READ_BYTES, at) != READ_BYTES)
			abort();
	} else if (!strcmp(kind, "spin")) {
		spin(8000000);
	} else if (!strcmp(kind, "semaphore")) {
		struct sembuf down = { 0, -1, 0 };
		struct timespec patience = { 0, 6000000 };

		if (!semtimedop(semaphores, &down, 1, &patience) || errno != EAGAIN)
			abort();
	} else {
		sleep_for(5000000);
	}
}

static uint32_t event_of(const char *kind)
{
	return !strcmp(kind, "cached") ? SEQUENTIAL_READ : !strcmp(kind, "direct") ? DIRECT_READ :
	       !strcmp(kind, "spin") ? LATCH : !strcmp(kind, "semaphore") ? ROW_LOCK :
	       !strcmp(kind, "named") ? ONLY_IN_BINARY : !strcmp(kind, "unnamed") ? NOWHERE : QUANTUM;
}

static void wait_in(const char *kind, uint32_t statement)
{
	uint32_t event = event_of(kind);
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), begin = clock_ns(CLOCK_MONOTONIC), end, db_us;
	uint64_t beside_ns;

	kskthbwt(0, begin / 1000, event);
	beside_ns = clock_ns(CLOCK_MONOTONIC) - begin;
	work(kind);
	end = clock_ns(CLOCK_MONOTONIC);
	db_us = end / 1000 - begin / 1000;
	kews_update_wait_time(0, db_us);
	kskthewt(end / 1000, event);
	beside_ns += clock_ns(CLOCK_MONOTONIC) - end;
	note(event, statement, end - begin, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu, db_us, beside_ns);
}

/* Waits for the next message from its client, the parent. */
static void wait_for_message(int from)
{
	char c;

	put(KSUSESQH, 0);
	kskthbwt(0, clock_ns(CLOCK_MONOTONIC) / 1000, FROM_CLIENT);
	if (read(from, &c, 1) != 1)
		_exit(0);
	kskthewt(clock_ns(CLOCK_MONOTONIC) / 1000, FROM_CLIENT);
}

static void run_session(int number, char *segment, int from, int to, double seconds, char *kinds)
{
	char *all[16], *kind;
	int n = 0, many = 0;
	uint64_t end, begin, cpu;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	session = segment + (size_t)number * KSUSE_BYTES;
	put(KSUSENUM, 100 + number);
	put(KSUSETIM, 1);
	for (kind = strtok(kinds, ","); kind && n < 16; kind = strtok(NULL, ","))
		if (!strcmp(kind, "statements"))
			many = 1;
		else
			all[n++] = kind;
	for (;;) {
		wait_for_message(from);
		memset(truths, 0, sizeof(truths));
		begin = clock_ns(CLOCK_MONOTONIC);
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		end = begin + seconds * 1e9;
		for (unsigned round = 0; clock_ns(CLOCK_MONOTONIC) < end; round++) {
			uint32_t statement = many ? 0x1000 + round : 0xAAAA0001 + round / 8 % 2;

			put(KSUSESQH, statement);
			wait_in(all[round % n], many ? 0 : statement);
			spin(1000000);
		}
		/* Event 0: all of it. */
		note(0, 0, clock_ns(CLOCK_MONOTONIC) - begin, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu, 0, 0);
		for (struct truth *t = truths; t < truths + 64 && t->count; t++)
			dprintf(to, "%d,%u,%u,%llu,%llu,%llu,%llu,%llu\n", getpid(), t->event, t->statement,
				(unsigned long long)t->count, (unsigned long long)t->ns,
				(unsigned long long)t->cpu_ns, (unsigned long long)t->db_us,
				(unsigned long long)t->kept_ns);
		dprintf(to, "end\n");
	}
}

static void make_files(const char *directory)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/data", directory);
	if (posix_memalign((void **)&buffer, 4096, READ_BYTES))
		abort();
	memset(buffer, 'x', READ_BYTES);
	file = open(path, O_RDWR | O_CREAT, 0600);
	for (int i = 0; i < FILE_BYTES / READ_BYTES; i++)
		if (write(file, buffer, READ_BYTES) != READ_BYTES)
			abort();
	snprintf(path, sizeof(path), "%s/direct", directory);
	direct_file = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
	if (direct_file < 0)
		direct_file = open(path, O_RDWR | O_CREAT, 0600);
	for (int i = 0; i < FILE_BYTES / READ_BYTES; i++)
		if (write(direct_file, buffer, READ_BYTES) != READ_BYTES)
			abort();
	fsync(direct_file);
}

static void make_map(const char *directory, char *segment, const pid_t *pids, int sessions)
{
	char path[4096], temporary[4100];
	size_t events = sizeof(in_map) / sizeof(in_map[0]);
	FILE *map;

	snprintf(path, sizeof(path), "%s/map.csv", directory);
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	map = fopen(temporary, "w");
	fprintf(map, "instance,\"STANDIN\",\"19.0.0.0.0\",.\n");
	for (int i = 0; i < sessions; i++) {
		unsigned long long at = (unsigned long long)(uintptr_t)(segment + (size_t)i * KSUSE_BYTES);

		fprintf(map, "session,%d,%d,%d,\"USER\",\"SCOTT\",\"stand_in\",\"worker %d, of several\","
			"0x%llX,0x%llX,0x%llX,0x%llX,.\n", 100 + i, 1000 + i, pids[i], i,
			at + KSUSEOPC, at + KSUSETIM, at + KSUSESQH, at + KSUSENUM);
	}
	for (size_t i = 0; i < events; i++)
		fprintf(map, "event,%d,\"%s\",\"%s\",.\n", in_map[i].number, ksledt_[in_map[i].number].name,
			in_map[i].class);
	fprintf(map, "end,%d,%zu,.\n", sessions, events);
	fclose(map);
	rename(temporary, path);
}

int main(int argc, char **argv)
{
	int sessions = argc > 3 ? atoi(argv[3]) : 0, segment_id, to_parent[2], to_session[MAX_SESSIONS][2], ended;
	pid_t pids[MAX_SESSIONS];
	char *segment, line[256], path[4096];
	FILE *told, *truth;

	if (argc != 5 || sessions < 1 || sessions > MAX_SESSIONS) {
		fprintf(stderr, "usage: stand_in DIRECTORY SECONDS SESSIONS KIND,KIND...\n");
		return 2;
	}
	make_files(argv[1]);
	segment_id = shmget(IPC_PRIVATE, (size_t)sessions * KSUSE_BYTES, 0600);
	segment = shmat(segment_id, NULL, 0);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	if (segment == (void *)-1 || semaphores < 0 || pipe(to_parent)) {
		perror("stand_in");
		return 1;
	}
	shmctl(segment_id, IPC_RMID, NULL); /* gone with the last process that has it */
	for (int i = 0; i < sessions; i++) {
		if (pipe(to_session[i]))
			return 1;
		pids[i] = fork();
		if (!pids[i]) {
			for (int other = 0; other <= i; other++)
				close(to_session[other][1]);
			run_session(i, segment, to_session[i][0], to_parent[1], atof(argv[2]), argv[4]);
		}
	}
	close(to_parent[1]);
	make_map(argv[1], segment, pids, sessions);
	puts("ready");
	fflush(stdout);
	snprintf(path, sizeof(path), "%s/truth.csv", argv[1]);
	told = fdopen(to_parent[0], "r");
	while (fgets(line, sizeof(line), stdin)) {
		truth = fopen(path, "w");
		for (int i = 0; i < sessions; i++)
			if (write(to_session[i][1], "x", 1) != 1)
				abort();
		for (ended = 0; ended < sessions && fgets(line, sizeof(line), told);)
			if (!strcmp(line, "end\n"))
				ended++;
			else
				fputs(line, truth);
		fclose(truth);
		puts("done");
		fflush(stdout);
	}
	for (int i = 0; i < sessions; i++)
		kill(pids[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	semctl(semaphores, 0, IPC_RMID);
	return 0;
}
