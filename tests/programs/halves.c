/* A library for shortens.c. */
static volatile unsigned long work;

static __attribute__((noinline, noclone)) void work_until(volatile int *told)
{
	while (!*told)
		work++;
}

void before(volatile int *told);
void before(volatile int *told)
{
	work_until(told);
	work++;
}

void after(volatile int *told);
void after(volatile int *told)
{
	work_until(told);
	work += 2;
}
