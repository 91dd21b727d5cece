/* A library for many.c. */
static volatile unsigned long work;

void for_a_moment(void);
void for_a_moment(void)
{
	for (int n = 0; n < 5000000; n++)
		work++;
}
