/* A library that is loaded while its user is recorded. */
static volatile unsigned long work;

static __attribute__((noinline, noclone)) void deep_in_library(void)
{
	for (;;)
		work++;
}

void in_library(void);
void in_library(void)
{
	deep_in_library();
	work++;
}
