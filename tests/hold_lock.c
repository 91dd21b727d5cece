/* Functions for PostgreSQL: one holds an LWLock of the server for a while and returns for how long, another one takes it so many times
 * and returns how long it waited for it; a third one holds the lock of a page, a fourth one reports that it runs under a given plan, and
 * a fifth one holds a spinlock or waits for it. What they need of the server's headers is declared here, so that they can be built without
 * those: -DPG=15.
 *
 *	CREATE FUNCTION hold(exclusive bool, us int8, spins bool) RETURNS int8 AS 'hold_lock.so', 'hold_lock' LANGUAGE C STRICT
 *	CREATE FUNCTION take(exclusive bool, times int8) RETURNS int8 AS 'hold_lock.so', 'take_lock' LANGUAGE C STRICT
 *	CREATE FUNCTION hold_page(relation regclass, fork int4, block int4, exclusive bool, us int8) RETURNS int8
 *		AS 'hold_lock.so', 'hold_page' LANGUAGE C STRICT
 *	CREATE FUNCTION by_plan(plan int8, us int8, spins bool) RETURNS int8 AS 'hold_lock.so', 'by_plan' LANGUAGE C STRICT
 *	CREATE FUNCTION spin(us int8) RETURNS int8 AS 'hold_lock.so', 'spin_lock' LANGUAGE C STRICT
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* src/include/fmgr.h */
struct abi {
	int version, function_arguments, index_keys, name_bytes, float8_by_value;
#if PG >= 15
	char extra[32];
#endif
};

struct magic {
	int bytes;
	struct abi abi;
#if PG >= 18
	const char *name, *name_version;
#endif
};

struct argument {
	uintptr_t value;
	bool is_null;
};

struct call {
	void *function, *context, *result;
	unsigned collation;
	bool is_null;
	short count;
	struct argument arguments[];
};

struct info {
	int api;
};

/* src/include/storage/lwlock.h */
#define LOCK_BYTES 128
#define ADDIN_SHMEM_INIT 21 /* nobody needs it once the server runs */
extern char *MainLWLockArray;
extern bool LWLockAcquire(void *lock, int mode);
extern void LWLockRelease(void *lock);

/* src/include/storage/s_lock.h; the spinlock is in the padding of the lock above. */
#define SPINLOCK_AT 64
extern int s_lock(volatile unsigned char *lock, const char *file, int line, const char *function);

/* src/include/access/relation.h, src/include/storage/bufmgr.h */
#define ACCESS_SHARE 1
#define LOCKED_SHARED 1
#define LOCKED_EXCLUSIVE 2
extern void *relation_open(unsigned relation, int mode);
extern void relation_close(void *relation, int mode);
extern int ReadBufferExtended(void *relation, int fork, unsigned block, int mode, void *strategy);
extern void LockBuffer(int buffer, int mode);
extern void UnlockReleaseBuffer(int buffer);

#if PG >= 18
/* src/include/utils/backend_status.h */
extern void pgstat_report_plan_id(int64_t plan, bool force);
#endif

const struct magic *Pg_magic_func(void)
{
	static const struct magic magic = {
		.bytes = sizeof(struct magic),
		.abi = {
			.version = PG * 100,
			.function_arguments = 100,
			.index_keys = 32,
			.name_bytes = 64,
			.float8_by_value = 1,
#if PG >= 15
			.extra = "PostgreSQL",
#endif
		},
	};
	return &magic;
}

const struct info *pg_finfo_hold_lock(void)
{
	static const struct info info = { 1 };
	return &info;
}

const struct info *pg_finfo_take_lock(void)
{
	static const struct info info = { 1 };
	return &info;
}

const struct info *pg_finfo_hold_page(void)
{
	static const struct info info = { 1 };
	return &info;
}

const struct info *pg_finfo_by_plan(void)
{
	static const struct info info = { 1 };
	return &info;
}

const struct info *pg_finfo_spin_lock(void)
{
	static const struct info info = { 1 };
	return &info;
}

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* Named, and not inlined, so that it is seen in stacks. */
__attribute__((noinline)) int64_t hold_for(int64_t us, bool spins)
{
	int64_t begin = now_us(), left;

	while ((left = us - (now_us() - begin)) > 0)
		if (!spins)
			nanosleep(&(struct timespec){ .tv_nsec = (left < 10000 ? left : 10000) * 1000 }, NULL);
	return now_us() - begin;
}

uintptr_t hold_lock(struct call *call)
{
	void *lock = MainLWLockArray + LOCK_BYTES * ADDIN_SHMEM_INIT;
	int64_t held;

	LWLockAcquire(lock, call->arguments[0].value ? 0 : 1);
	held = hold_for(call->arguments[1].value, call->arguments[2].value);
	LWLockRelease(lock);
	return held;
}

uintptr_t take_lock(struct call *call)
{
	void *lock = MainLWLockArray + LOCK_BYTES * ADDIN_SHMEM_INIT;
	int64_t times = call->arguments[1].value, waited = 0, begin;

	while (times-- > 0) {
		begin = now_us();
		LWLockAcquire(lock, call->arguments[0].value ? 0 : 1);
		waited += now_us() - begin;
		LWLockRelease(lock);
	}
	return waited;
}

uintptr_t hold_page(struct call *call)
{
	void *relation = relation_open(call->arguments[0].value, ACCESS_SHARE);
	int buffer = ReadBufferExtended(relation, call->arguments[1].value, call->arguments[2].value, 0, NULL);
	int64_t held;

	LockBuffer(buffer, call->arguments[3].value ? LOCKED_EXCLUSIVE : LOCKED_SHARED);
	held = hold_for(call->arguments[4].value, false);
	UnlockReleaseBuffer(buffer);
	relation_close(relation, ACCESS_SHARE);
	return held;
}

/* Servers before 18 have no plan ids. */
uintptr_t by_plan(struct call *call)
{
#if PG >= 18
	pgstat_report_plan_id(call->arguments[0].value, true);
#endif
	return hold_for(call->arguments[1].value, call->arguments[2].value);
}

/* Named, and not inlined, so that it is seen in stacks. */
__attribute__((noinline)) int64_t want_spinlock(volatile unsigned char *lock)
{
	int64_t begin = now_us();

	if (__sync_lock_test_and_set(lock, 1))
		s_lock(lock, __FILE__, __LINE__, __func__);
	return now_us() - begin;
}

/* Holds it for a while; returns how long it waited for it. */
uintptr_t spin_lock(struct call *call)
{
	volatile unsigned char *lock = (unsigned char *)MainLWLockArray + LOCK_BYTES * ADDIN_SHMEM_INIT + SPINLOCK_AT;
	int64_t waited = want_spinlock(lock);

	hold_for(call->arguments[0].value, false);
	__sync_lock_release(lock);
	return waited;
}
